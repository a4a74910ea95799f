import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { type EverythingServer, startEverything } from '../../support/everything.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { postMcp } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const ping = { jsonrpc: '2.0', id: 7, method: 'ping' }
const accept = 'application/json, text/event-stream'

describe('MCP sessions', function () {
  this.timeout(60_000)
  let server: EverythingServer
  let gateway: TestGateway

  const issuer = ofSuite(() => TestIssuer.start())
  before(async () => {
    server = await startEverything()
    gateway = await startTestGateway(options())
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  function options(more: GatewaySettings = {}): GatewaySettings {
    return {
      targets: { everything: server.url, other: server.url },
      authn: { oidc: issuer.oidc, allowUnauthenticated: true },
      ...more,
    }
  }

  const bearer = async (claims: Record<string, unknown> = {}) => ({
    authorization: `Bearer ${await issuer.sign(claims)}`,
  })
  const ada = () => bearer()
  const bob = () => bearer({ sub: 'bob', email: 'bob@example.com' })

  async function post(session: string, headers: Record<string, string>, to = gateway, target = 'everything') {
    return postMcp(`${to.url}/mcp/${target}`, ping, { 'mcp-session-id': session, ...headers })
  }

  /** A session of Ada's that the SDK's client began. */
  async function begun(to = gateway): Promise<{ client: Client; session: string }> {
    const client = new Client({ name: 'test', version: '1.0.0' })
    const transport = new StreamableHTTPClientTransport(new URL(`${to.url}/mcp/everything`), {
      requestInit: { headers: await ada() },
    })
    await client.connect(transport)
    return { client, session: transport.sessionId ?? '' }
  }

  it('serve the caller that began them, with any of its tokens', async () => {
    const { client, session } = await begun()
    const { content } = await client.callTool({ name: 'echo', arguments: { message: 'hi' } })
    expect(content).to.deep.equal([{ type: 'text', text: 'Echo: hi' }])
    const later = await bearer({ email: 'ada@new.example.com', jti: 'another' })
    expect((await post(session, later)).status).to.equal(200)
    await client.close()
  })

  it('refuse other callers: of the tenant, of another tenant, and without a token', async () => {
    const { client, session } = await begun()
    for (const [who, headers] of Object.entries({
      bob: await bob(),
      namesake: await bearer({ org: 'globex' }),
      agent: await bearer({ email: undefined, sub: undefined, azp: 'ada' }),
      nobody: {},
    })) {
      const response = await post(session, headers)
      expect(response.status, who).to.equal(404)
      const { error } = (await response.json()) as { error: { data: object } }
      expect(error.data, who).to.include({
        error: 'TARGET_NOT_FOUND',
        message: 'There is no such session of this caller; begin a new one.',
        sent: false,
      })
    }
    expect((await post(session, await ada())).status).to.equal(200)
    await client.close()
  })

  it('cannot be listened to, resumed or ended by another caller', async () => {
    const { client, session } = await begun()
    const url = `${gateway.url}/mcp/everything`
    const headers = { accept, 'mcp-session-id': session, ...(await bob()) }
    expect((await fetch(url, { headers })).status).to.equal(404)
    expect((await fetch(url, { headers: { ...headers, 'last-event-id': '1' } })).status).to.equal(404)
    expect((await fetch(url, { method: 'DELETE', headers })).status).to.equal(404)
    expect((await post(session, await ada())).status).to.equal(200)
    await client.close()
  })

  it('are needed to resume a stream', async () => {
    const headers = { accept, 'last-event-id': '1', ...(await bob()) }
    const response = await fetch(`${gateway.url}/mcp/everything`, { headers })
    expect(response.status).to.equal(400)
    expect(await response.json()).to.include({ error: 'BAD_REQUEST', sent: false })
  })

  it("cannot be used at another server, guessed, or named by the server's own id", async () => {
    const { client, session } = await begun()
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    }
    const direct = await postMcp(server.url, { jsonrpc: '2.0', id: 1, method: 'initialize', params })
    await direct.text()
    const own = direct.headers.get('mcp-session-id') ?? ''
    expect(own).to.match(/^[0-9a-f-]{36}$/)
    const at = session.length >> 1
    const other = `${session.slice(0, at)}${session[at] === 'A' ? 'B' : 'A'}${session.slice(at + 1)}`
    for (const id of [own, other, `svc.${own}`, session.slice(0, 23), `${session}x`, session.slice(4), 'x']) {
      expect((await post(id, await ada())).status, id).to.equal(404)
    }
    expect((await post(session, await ada(), gateway, 'other')).status).to.equal(404)
    await client.close()
  })

  it('of another caller are recorded when they are refused', async () => {
    const { client, session } = await begun()
    await post(session, await bob())
    const record = gateway.records().findLast(({ principal }) => principal?.user === 'bob@example.com')
    expect(record).to.include({ status: 'error', error: 'TARGET_NOT_FOUND' })
    await client.close()
  })

  it('of a server without sessions cannot be ended, as no gateway would know of it', async () => {
    await using upstream = await startUpstream((call, response) => {
      if (call.method === 'DELETE') {
        response.writeHead(204).end()
        return
      }
      const { id } = JSON.parse(call.body) as { id: number }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: {} }))
    })
    await using here = await startTestGateway(options({ targets: { everything: upstream.url } }))
    const url = `${here.url}/mcp/everything`
    const capabilities = { elicitation: {} }
    const params = { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'c', version: '1' } }
    const begun = await postMcp(url, { jsonrpc: '2.0', id: 1, method: 'initialize', params }, await ada())
    const session = begun.headers.get('mcp-session-id') ?? ''
    const sent = upstream.calls.length
    const headers = { accept, 'mcp-session-id': session, ...(await ada()) }
    const ended = await fetch(url, { method: 'DELETE', headers })
    expect([ended.status, ended.headers.get('allow')]).to.deep.equal([405, 'GET, POST'])
    expect(upstream.calls).to.have.length(sent)
    expect((await post(session, await ada(), here)).status).to.equal(200)
  })

  describe('of an upstream that echoes its headers', () => {
    let upstream: TestUpstream
    before(async () => {
      upstream = await startUpstream((call, response) => {
        const { id } = JSON.parse(call.body) as { id: number }
        response.setHeader('mcp-session-id', "the server's own")
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result: {} }))
      })
    })
    after(() => upstream[Symbol.asyncDispose]())

    it('have one id at the server, and one hash in the records of all calls', async () => {
      await using here = await startTestGateway(options({ targets: { everything: upstream.url } }))
      const session = await begin(here)
      const second = await post(session, await ada(), here)
      expect(second.headers.get('mcp-session-id')).to.equal(session)
      expect(upstream.calls.at(-1)?.headers).to.include({ 'mcp-session-id': "the server's own" })
    })

    /** The id of a session of Ada's. */
    async function begin(to: TestGateway): Promise<string> {
      const response = await postMcp(`${to.url}/mcp/everything`, ping, await ada())
      return response.headers.get('mcp-session-id') ?? ''
    }

    it('survive a restart, by a stored key that only its owner can read', async () => {
      using home = new TemporaryDir()
      const same = options({ targets: { everything: upstream.url }, sec0Dir: home.path })
      let session: string
      {
        await using before = await startTestGateway(same)
        session = await begin(before)
      }
      expect(statSync(join(home.path, 'mcp-sessions.key')).mode & 0o777).to.equal(0o600)
      await using after = await startTestGateway(same)
      expect((await post(session, await ada(), after)).status).to.equal(200)
    })

    it('end with the gateway if its key cannot be stored, which is logged', async () => {
      const targets = { everything: upstream.url }
      await using here = await startTestGateway(options({ targets, sec0Dir: '/dev/null/state' }))
      const session = await begin(here)
      expect((await post(session, await ada(), here)).status).to.equal(200)
      expect(JSON.stringify(here.log.lines)).to.include('the key of MCP sessions cannot be kept')
    })

    it('prevent the start of the gateway if the key that the policy names cannot be read', async () => {
      for (const env of [{}, { KEY: 'short' }]) {
        const server = { sessionKeyRef: 'env:KEY' }
        const error = await startTestGateway(options({ server, env })).catch((reason: unknown) => reason)
        expect(String(error)).to.match(/KEY is not set|server\.sessionKeyRef: the key has 5 characters/)
      }
    })

    it('are known only to gateways with the same key', async () => {
      const env = { KEY: 'a key of the test that is long enough' }
      const shared = options({
        targets: { everything: upstream.url },
        server: { sessionKeyRef: 'env:KEY' },
        env,
      })
      await using one = await startTestGateway(shared)
      await using two = await startTestGateway(shared)
      await using stranger = await startTestGateway(options({ targets: { everything: upstream.url } }))
      const session = await begin(one)
      expect((await post(session, await ada(), two)).status).to.equal(200)
      expect((await post(session, await ada(), stranger)).status).to.equal(404)
    })
  })
})
