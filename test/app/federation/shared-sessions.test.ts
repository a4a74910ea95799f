// Sessions at /mcp of two gateways with one Redis: a client may send each request to either.
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  CreateMessageRequestSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { postMcp } from '../../support/mcp-post.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { startRoundRobin } from '../../support/round-robin.js'
import { connect1 } from '../../support/sdk-clients.js'
import { signalled } from '../../support/signalled.js'
import { until } from '../../support/stdio-target.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'
import { capabilities, done, sessionTools } from './session-tools.js'

const initialize = {
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}
describe('a session at /mcp of two gateways with one store', function () {
  this.timeout(30_000)
  let redis: RedisServer
  let notes: SessionServer
  let first: TestGateway
  let second: TestGateway
  let began: ReturnType<typeof signalled<void>>
  let cancelled: ReturnType<typeof signalled<void>>
  let id: number

  before(async () => {
    redis = await startRedis()
  })

  after(() => redis[Symbol.asyncDispose]())

  beforeEach(async () => {
    id = 0
    began = signalled()
    cancelled = signalled()
    const register = (server: McpServer): void => {
      sessionTools('notes')(server)
      server.registerTool('hold', {}, ({ signal }) => {
        began.resolve()
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            cancelled.resolve()
            resolve(done)
          })
        })
      })
    }
    notes = await startSessionServer('notes', register, capabilities)
    const settings = {
      targets: { notes: notes.url },
      quotas: { adapter: 'redis', redisUrl: redis.url },
      server: { drainMs: 0 },
    }
    first = await startTestGateway(settings)
    second = await startTestGateway(settings)
  })

  afterEach(async () => {
    for (const part of [first, second, notes]) await part[Symbol.asyncDispose]()
  })

  function post(gateway: TestGateway, message: object, headers: Record<string, string> = {}) {
    return postMcp(`${gateway.url}/mcp`, message, headers)
  }

  async function ask(gateway: TestGateway, session: Record<string, string>, method: string, params = {}) {
    return (await post(gateway, { id: ++id, method, params }, session)).text()
  }

  async function begin(caller: Record<string, string> = {}): Promise<Record<string, string>> {
    const response = await post(first, { id: ++id, ...initialize }, caller)
    await response.text()
    const session = { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '' }
    await post(first, { method: 'notifications/initialized' }, { ...session, ...caller })
    return session
  }

  it('continues at each gateway, in one session of the server', async () => {
    await using balancer = await startRoundRobin([first.url, second.url])
    const client = await connect1(`${balancer.url}/mcp`)
    for (let i = 0; i < 4; i++)
      expect(await client.callTool({ name: 'notes__read', arguments: {} })).to.deep.include(done)
    expect(notes.sessions.size).to.equal(1)
    for (const gateway of [first, second])
      expect(gateway.records().filter(({ tool }) => tool.startsWith('read@'))).to.have.length(2)
    await client.close()
  })

  it('cannot be used by another caller at any gateway', async () => {
    await using issuer = await TestIssuer.start()
    for (const gateway of [first, second]) await gateway.handle.reload({ authn: { oidc: issuer.oidc } })
    const ada = { authorization: `Bearer ${await issuer.sign({ sub: 'ada' })}` }
    const bob = { authorization: `Bearer ${await issuer.sign({ sub: 'bob' })}` }
    const session = await begin(ada)
    for (const [caller, status] of [
      [bob, 404],
      [ada, 200],
    ] as const) {
      const response = await post(second, { id: 9, method: 'tools/list' }, { ...session, ...caller })
      expect(response.status).to.equal(status)
    }
  })

  it('forwards requests of the server to the client, and the updates that it subscribed to', async () => {
    await using balancer = await startRoundRobin([first.url, second.url])
    const prepare = (client: Client): void =>
      client.setRequestHandler(CreateMessageRequestSchema, () => ({
        model: 'm',
        role: 'assistant' as const,
        content: { type: 'text' as const, text: 'sampled' },
      }))
    const client = await connect1(`${balancer.url}/mcp`, { capabilities: { sampling: {} }, prepare })
    for (let i = 0; i < 2; i++) {
      const { content } = await client.callTool({ name: 'notes__ask', arguments: {} })
      expect(JSON.stringify(content)).to.include('sampled')
    }
    const updated = signalled<string>()
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
      updated.resolve(params.uri),
    )
    await client.subscribeResource({ uri: 'note://1' })
    await until(() => notes.methods.includes('GET'))
    await notes.sessions.get('notes-1')?.server.sendResourceUpdated({ uri: 'note://1' })
    expect(await updated.happened).to.equal('note://1')
    await client.close()
  })

  it('reads a list again at each gateway after the other one was notified of a change', async () => {
    const session = await begin()
    const signal = AbortSignal.timeout(20_000)
    const stream = await fetch(`${first.url}/mcp`, {
      headers: { accept: 'text/event-stream', ...session },
      signal,
    })
    for (const gateway of [first, second])
      expect(await ask(gateway, session, 'tools/list'))
        .to.include('notes__read')
        .and.not.include('notes__new')
    notes.sessions.get('notes-1')?.registerTool('new', {}, () => done)
    await readUntil(stream, 'list_changed')
    for (const gateway of [first, second])
      expect(await ask(gateway, session, 'tools/list')).to.include('notes__new')
  })

  it('cancels a request that runs at the other gateway', async () => {
    const session = await begin()
    const waiting = post(
      first,
      { id: 'w', method: 'tools/call', params: { name: 'notes__hold', arguments: {} } },
      session,
    )
    await began.happened
    await post(second, { method: 'notifications/cancelled', params: { requestId: 'w' } }, session)
    await cancelled.happened
    await (await waiting).body?.cancel()
  })

  it('ends at all gateways, and at the server', async () => {
    const session = await begin()
    await ask(second, session, 'tools/list')
    const ended = await fetch(`${second.url}/mcp`, { method: 'DELETE', headers: session })
    expect(ended.status).to.equal(204)
    expect(notes.sessions.size).to.equal(0)
    await until(async () => (await post(first, { id: ++id, method: 'tools/list' }, session)).status === 404)
  })

  it('ends at the server if the gateway that used it last evicts it, and goes on in another one', async () => {
    const [moved, left] = [await begin(), await begin()]
    for (const session of [moved, left]) await ask(first, session, 'tools/list')
    await ask(second, moved, 'tools/list')
    for (let i = 0; i < 50; i++) await begin()
    await until(() => !notes.sessions.has('notes-2'))
    expect([...notes.sessions.keys()]).to.include('notes-1')
    expect(await ask(second, moved, 'tools/list')).to.include('notes__read')
    const begun = notes.sessions.size
    expect(await ask(second, left, 'tools/list')).to.include('notes__read')
    expect(notes.sessions.size).to.equal(begun + 1)
  })

  it('has its level of logs at a gateway that has not seen it set', async () => {
    const session = await begin()
    await ask(first, session, 'logging/setLevel', { level: 'error' })
    notes.forgetSessions()
    await ask(second, session, 'tools/call', { name: 'notes__read', arguments: {} })
    expect(notes.methods.filter((method) => method === 'logging/setLevel')).to.have.length(2)
  })

  it('goes on where it is known while the store is down, and is not taken for ended elsewhere', async () => {
    await using own = await startRedis()
    const quotas = { adapter: 'redis', redisUrl: own.url, failure_mode: 'open' } as const
    const settings = { targets: { notes: notes.url }, quotas, server: { drainMs: 0 } }
    await using one = await startTestGateway(settings)
    await using other = await startTestGateway(settings)
    const response = await post(one, { id: ++id, ...initialize })
    await response.text()
    const session = { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '' }
    expect(await ask(one, session, 'tools/list')).to.include('notes__read')
    await own.kill('SIGKILL')
    const call = { name: 'notes__read', arguments: {} }
    expect(await ask(one, session, 'tools/call', call)).to.include('"text":"done"')
    expect(await ask(other, session, 'tools/call', call)).to.include('STORE_UNAVAILABLE')
  })

  async function readUntil(response: Response, awaited: string): Promise<void> {
    const decoder = new TextDecoder()
    let got = ''
    for await (const piece of response.body ?? []) {
      got += decoder.decode(piece, { stream: true })
      if (got.includes(awaited)) return
    }
    throw new Error(`the stream ended without it: ${got}`)
  }
})
