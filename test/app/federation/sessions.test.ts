import { definePlugin, identity } from '@svc/core'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { postMcp } from '../../support/mcp-post.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { signalled } from '../../support/signalled.js'
import { until } from '../../support/stdio-target.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}
const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

describe('sessions at /mcp', () => {
  let notes: SessionServer
  let gateway: TestGateway | undefined

  beforeEach(async () => {
    notes = await startSessionServer('notes', (server) => {
      server.registerTool('read', {}, () => ({ content: [{ type: 'text', text: 'note' }] }))
    })
  })

  afterEach(async () => {
    await gateway?.[Symbol.asyncDispose]()
    gateway = undefined
    await notes[Symbol.asyncDispose]()
  })

  async function post(message: object, headers: Record<string, string> = {}) {
    const response = await postMcp(`${gateway?.url}/mcp`, message, headers)
    const text = await response.text()
    return { status: response.status, headers: response.headers, text }
  }

  it('are the gateway’s own, one for each client, with one session at each server', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const clients = [await connect1(`${gateway.url}/mcp`), await connect1(`${gateway.url}/mcp`)]
    for (const client of clients) await client.callTool({ name: 'notes__read', arguments: {} })
    expect(notes.sessions.size).to.equal(2)
    expect(notes.methods.filter((method) => method === 'initialize')).to.have.length(2)
    for (const client of clients) await client.close()
  })

  it('end with those at the servers when the client ends its session', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const { headers } = await post(initialize)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    expect(notes.sessions.size).to.equal(1)
    const ended = await fetch(`${gateway.url}/mcp`, { method: 'DELETE', headers: session })
    expect(ended.status).to.equal(204)
    expect(notes.sessions.size).to.equal(0)
    expect((await post(list, session)).status).to.equal(404)
  })

  it('end at the servers if newer sessions of the caller evict them, and only after their requests have ended', async () => {
    const held = signalled<void>()
    const running = signalled<void>()
    await using slow = await startSessionServer('slow', (server) => {
      server.registerTool('wait', {}, async () => {
        running.resolve()
        await held.happened
        return { content: [{ type: 'text', text: 'waited' }] }
      })
    })
    gateway = await startTestGateway({ targets: { notes: notes.url, slow: slow.url } })
    const { headers } = await post(initialize)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    const call = { method: 'tools/call', params: { name: 'slow__wait', arguments: {} } }
    const waiting = post({ jsonrpc: '2.0', id: 1, ...call }, session)
    await running.happened
    for (let i = 0; i < 51; i++) await post(initialize)
    await until(() => notes.sessions.size === 51)
    expect([...notes.sessions.keys()])
      .to.include('notes-1')
      .and.not.include('notes-2')
    held.resolve()
    expect((await waiting).text).to.include('waited')
    await until(() => notes.sessions.size === 50 && slow.sessions.size === 50)
    expect([...notes.sessions.keys()]).to.not.include('notes-1')
  })

  it('survive a restart of the gateway, and end when the client ends them', async () => {
    const settings = {
      targets: { notes: notes.url },
      server: { sessionKeyRef: 'env:SESSION_KEY' },
      env: { SESSION_KEY: 'k'.repeat(32) },
    }
    gateway = await startTestGateway(settings)
    const { headers } = await post(initialize)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    await gateway[Symbol.asyncDispose]()
    gateway = await startTestGateway(settings)
    expect((await post(list, session)).text).to.include('notes__read')
    await fetch(`${gateway.url}/mcp`, { method: 'DELETE', headers: session })
    expect((await post(list, session)).status).to.equal(404)
  })

  it('are not those of ids that were changed, or of another endpoint', async () => {
    gateway = await startTestGateway({
      targets: { notes: notes.url },
      federation: { groups: { some: ['notes'] } },
    })
    const { headers } = await post(initialize)
    const id = headers.get('mcp-session-id') ?? ''
    const at = id.length >> 1
    const flipped = `${id.slice(0, at)}${id[at] === 'A' ? 'B' : 'A'}${id.slice(at + 1)}`
    for (const given of [flipped, `${id}A`, id.slice(0, -1), id.toUpperCase(), 'svc-', id.slice(4)])
      expect((await post(list, { 'mcp-session-id': given })).status, given).to.equal(404)
    const elsewhere = await postMcp(`${gateway.url}/mcp/some`, list, { 'mcp-session-id': id })
    expect(elsewhere.status).to.equal(404)
    expect((await post(list, { 'mcp-session-id': id })).status).to.equal(200)
  })

  it('have ids of a length that proxies accept, however long a client describes itself', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const clientInfo = { name: 'raw', version: '1', icons: [{ src: `data:,${'a'.repeat(20_000)}` }] }
    const { headers } = await post({ ...initialize, params: { ...initialize.params, clientInfo } })
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    expect(session['mcp-session-id'].length).to.be.below(3_500)
    expect((await post(list, session)).text).to.include('notes__read')
  })

  it('survive the end of a session at a server', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const client = await connect1(`${gateway.url}/mcp`)
    notes.forgetSessions()
    const result = await client.callTool({ name: 'notes__read', arguments: {} })
    expect(result.content).to.deep.equal([{ type: 'text', text: 'note' }])
    await client.close()
  })

  it('belong to their callers', async () => {
    await using issuer = await TestIssuer.start()
    gateway = await startTestGateway({ targets: { notes: notes.url }, authn: { oidc: issuer.oidc } })
    const ada = { authorization: `Bearer ${await issuer.sign({ sub: 'ada' })}` }
    const bob = { authorization: `Bearer ${await issuer.sign({ sub: 'bob' })}` }
    const { headers } = await post(initialize, ada)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    expect((await post(list, { ...session, ...ada })).text).to.include('notes__read')
    const stolen = await post(list, { ...session, ...bob })
    expect(stolen.status).to.equal(404)
    expect(JSON.parse(stolen.text)).to.deep.include({ id: 1, jsonrpc: '2.0' })
    const refused = await post(initialize)
    expect(refused.status).to.equal(401)
    expect(gateway.records().at(-1)).to.include({ error: 'UNAUTHENTICATED', server: 'unknown@unversioned' })
  })

  it('are required up to 2025-11-25', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    expect(await post(list))
      .to.include({ status: 400 })
      .and.property('text')
      .to.include('Mcp-Session-Id is missing')
    expect(await post(list, { 'mcp-session-id': 'guessed' })).to.include({ status: 404 })
  })

  it('at servers are kept for clients without sessions', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const client = await connect2(`${gateway.url}/mcp`)
    for (let i = 0; i < 3; i++) await client.callTool({ name: 'notes__read', arguments: {} })
    expect(notes.methods.filter((method) => method === 'initialize')).to.have.length(1)
    await client.close()
  })

  it('cache lists, and record each request for one', async () => {
    gateway = await startTestGateway({
      targets: { notes: notes.url },
      federation: { list_ttl_ms: 3_600_000 },
    })
    const client = await connect1(`${gateway.url}/mcp`)
    for (let i = 0; i < 3; i++) expect((await client.listTools()).tools).to.have.length(1)
    expect(notes.methods.filter((method) => method === 'tools/list')).to.have.length(1)
    const lists = gateway.records().filter(({ tool }) => tool.includes('tools/list'))
    expect(lists.map(({ server, tool }) => `${server} ${tool}`)).to.deep.equal([
      'notes@1.0.0 tools/list@1.0.0',
      'gw@1.0.0 federation/tools/list@1',
      'gw@1.0.0 federation/tools/list@1',
    ])
    await client.close()
  })

  it('have records of requests without a server if no stage identifies callers', async () => {
    const authn = definePlugin({
      name: 'authn',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.looseObject({}).prefault({}),
      phase: 'authentication',
      provides: [identity],
      create: () => ({
        handle(call, next) {
          call.set(identity, { tenant: 'acme', authenticated: true, roles: [] })
          return next()
        },
      }),
    })
    gateway = await startTestGateway({ targets: { notes: notes.url }, plugins: [authn] })
    const { headers } = await post(initialize)
    await post({ ...list, method: 'ping' }, { 'mcp-session-id': headers.get('mcp-session-id') ?? '' })
    expect(gateway.records().at(-1)).to.include({ tool: 'federation/ping@1', tenant: 'acme' })
  })

  it('list for a client whatever it accepts', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const { headers } = await post(initialize)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    expect((await post(list, { ...session, accept: '*/*' })).text).to.include('notes__read')
  })

  it('respond to a ping, an unknown method and a batch without a server', async () => {
    gateway = await startTestGateway({ targets: { notes: notes.url } })
    const { headers } = await post(initialize)
    const session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    const asked = notes.methods.length
    expect(JSON.parse((await post({ ...list, method: 'ping' }, session)).text)).to.deep.equal({
      jsonrpc: '2.0',
      id: 1,
      result: {},
    })
    expect(JSON.parse((await post({ ...list, method: 'tools/fry' }, session)).text)).to.have.nested.property(
      'error.code',
      -32601,
    )
    const batch = await post([list, list], session)
    expect(batch.status).to.equal(400)
    expect(notes.methods).to.have.length(asked)
    expect(
      gateway
        .records()
        .slice(-3)
        .map(({ tool, error }) => [tool, error ?? 'ok']),
    ).to.deep.equal([
      ['federation/ping@1', 'ok'],
      ['tools/fry@unversioned', 'BAD_REQUEST'],
      ['POST@unversioned', 'BAD_REQUEST'],
    ])
  })
})
