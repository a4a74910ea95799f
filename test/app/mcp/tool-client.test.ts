// The invoke protocol in front of MCP servers: targets of the form mcp+http(s)://….
import type { ServerResponse } from 'node:http'
import { EmptyResultSchema, ListRootsResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { type EverythingServer, startEverything } from '../../support/everything.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { events, info, json, type Message } from '../../support/mcp-server.js'
import { startSessionServer } from '../../support/tool-servers.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'

describe('the invoke protocol in front of a real MCP server', () => {
  let server: EverythingServer
  let gateway: TestGateway

  before(async () => {
    server = await startEverything()
    gateway = await startTestGateway({ targets: { everything: `mcp+${server.url}` } })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  const invoke = (tool: string, args: object = {}) => gateway.invoke(`/mcp/everything/${tool}`, args)
  const last = () => gateway.records().at(-1)

  it('calls a tool and responds with its result, under the version of the server', async () => {
    const response = await invoke('echo@unversioned', { message: 'hi' })
    const text = await response.text()
    expect(response.status).to.equal(200)
    expect(response.headers.get('content-type')).to.equal('application/json')
    expect(JSON.parse(text)).to.deep.equal({ content: [{ type: 'text', text: 'Echo: hi' }] })
    const [, version] = (last()?.server ?? '').split('@')
    expect(version).to.match(/^\d/)
    expect(last()).to.include({
      status: 'ok',
      server: `everything@${version}`,
      tool: `echo@${version}`,
      output_sha256: sha256Hex(text),
    })
    expect((await invoke(`echo@${version}`, { message: 'again' })).status).to.equal(200)
  })

  it('gets responses to its requests during a call', async () => {
    await using asking = await startSessionServer('asking', (sdk) => {
      sdk.registerTool('ask', {}, async ({ sendRequest }) => {
        const pong = await sendRequest({ method: 'ping' }, EmptyResultSchema)
        const roots = sendRequest({ method: 'roots/list' }, ListRootsResultSchema)
        const code = await roots.catch((error) => error.code)
        return { content: [{ type: 'text', text: JSON.stringify([pong, code]) }] }
      })
    })
    await using through = await startTestGateway({ targets: { asking: `mcp+${asking.url}` } })
    const response = await through.invoke('/mcp/asking/ask@unversioned', {})
    expect(await response.json()).to.deep.equal({ content: [{ type: 'text', text: '[{},-32601]' }] })
  })

  it('is called by a2a too', async () => {
    const response = await gateway.invoke('/a2a/invoke', {
      to: 'everything',
      toolAtVersion: 'get-sum@unversioned',
      args: { a: 1, b: 2 },
    })
    expect(await response.json())
      .to.have.nested.property('content[0].text')
      .that.includes('3')
  })

  it("denies another version than the server's, also if other sections judge the call", async () => {
    await using careful = await startTestGateway({
      targets: { everything: `mcp+${server.url}` },
      security: { allow_versions: { everything: ['*'] } },
    })
    const denied = await careful.invoke('/mcp/everything/echo@0.0.1', { message: 'hi' })
    expect(await denied.json()).to.include({ denial_reason: 'version_unpinned', sent: false })
    await using observing = await startTestGateway({
      targets: { everything: `mcp+${server.url}` },
      enforcement: { mode: 'observe' },
    })
    expect((await observing.invoke('/mcp/everything/echo@0.0.1', { message: 'hi' })).status).to.equal(200)
    expect(observing.records().at(-1)?.findings).to.have.nested.property('[0].effect', 'would_deny')
  })

  it("denies another version than the server's", async () => {
    const response = await invoke('echo@0.0.1', { message: 'hi' })
    expect(response.status).to.equal(403)
    expect(await response.json())
      .to.include({ denial_reason: 'version_unpinned', sent: false })
      .and.to.have.property('message')
      .that.matches(/the path asks for version 0\.0\.1, and server "everything" has \d/)
  })

  it("responds with 502 for a tool's own failure and for an unknown tool, with the server's error", async () => {
    for (const tool of ['get-sum', 'no-such-tool']) {
      const response = await invoke(`${tool}@unversioned`, { a: 'x' })
      expect(response.status, tool).to.equal(502)
      expect(JSON.stringify(await response.json())).to.match(/isError|"code":-?\d+/)
      expect(last()).to.include({ status: 'error', error: 'UPSTREAM' })
    }
  })

  it('does not change the MCP endpoint of the same server', async () => {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
    const response = await gateway.invoke('/mcp/everything', body, {
      accept: 'application/json, text/event-stream',
    })
    expect(await response.text()).to.include('"serverInfo"')
  })
})

type Reply = (message: Message, response: ServerResponse, call: UpstreamCall) => void

/** A server that accepts handshakes with sessions `s1`, `s2`, …, and leaves `tools/call` to the test. */
async function startServer(reply: Reply): Promise<TestUpstream & { methods(): string[] }> {
  let sessions = 0
  const upstream = await startUpstream((call, response) => {
    const message = JSON.parse(call.body || '{}') as Message
    const { id, method } = message
    if (method === 'initialize') {
      sessions++
      response.setHeader('mcp-session-id', `s${sessions}`)
      json(response, { jsonrpc: '2.0', id, result: info })
    } else if (method === 'tools/call') reply(message, response, call)
    else response.writeHead(202).end()
  })
  return {
    ...upstream,
    methods: () =>
      upstream.calls.map(({ method, body }) => (body === '' ? method : String(JSON.parse(body).method))),
  }
}

const done: Reply = ({ id }, response) =>
  json(response, { jsonrpc: '2.0', id, result: { content: [], structuredContent: { n: 1 } } })

describe('the invoke protocol in front of an MCP server', () => {
  async function withServer(
    reply: Reply,
    use: (gateway: TestGateway, server: Awaited<ReturnType<typeof startServer>>) => Promise<void>,
  ): Promise<void> {
    await using server = await startServer(reply)
    await using gateway = await startTestGateway({ targets: { files: `mcp+${server.url}/mcp` } })
    await use(gateway, server)
  }
  const sessionsOf = (calls: readonly UpstreamCall[]) =>
    calls.filter(({ body }) => body.includes('"tools/call"')).map(({ headers }) => headers['mcp-session-id'])

  it('calls in one session per caller, opened once', () =>
    withServer(done, async (gateway, server) => {
      const call = (run: string) => gateway.invoke('/mcp/files/echo@2.0.0', { a: 1 }, { 'x-agent-ref': run })
      await Promise.all([call('one'), call('one'), call('one')])
      await call('two')
      await call('one')
      // Session s1 was for the request of the server's version.
      expect(server.methods()).to.deep.equal([
        'initialize',
        'DELETE',
        'initialize',
        'notifications/initialized',
        'tools/call',
        'tools/call',
        'tools/call',
        'initialize',
        'notifications/initialized',
        'tools/call',
        'tools/call',
      ])
      expect(sessionsOf(server.calls)).to.deep.equal(['s2', 's2', 's2', 's3', 's2'])
    }))

  it('sends the arguments, the revision, and the headers that go with every call', () =>
    withServer(done, async (gateway, server) => {
      const headers = { 'idempotency-key': 'k', 'x-agent-ref': 'run', authorization: '', cookie: 'c=1' }
      const { authorization: _none, ...given } = headers
      await gateway.invoke('/mcp/files/echo@2.0.0', { b: 1, a: '"' }, given)
      const sent = server.calls.at(-1)
      expect(JSON.parse(sent?.body ?? '')).to.deep.equal({
        jsonrpc: '2.0',
        id: 'svc-call',
        method: 'tools/call',
        params: { name: 'echo', arguments: { a: '"', b: 1 } },
      })
      expect(sent?.body).to.include('{"b":1,"a":"\\""}')
      expect(sent?.headers).to.include({
        'mcp-protocol-version': '2025-11-25',
        accept: 'application/json, text/event-stream',
        'idempotency-key': 'k',
        'x-agent-ref': 'run',
      })
      expect(sent?.headers).to.have.property('traceparent')
      expect(sent?.headers).not.to.have.property('cookie')
    }))

  it('opens another session if the server has ended the first, and repeats the call once', () => {
    let calls = 0
    const reply: Reply = (message, response, call) => {
      calls++
      if (calls === 1) response.writeHead(404).end()
      else done(message, response, call)
    }
    return withServer(reply, async (gateway, server) => {
      expect((await gateway.invoke('/mcp/files/echo@2.0.0')).status).to.equal(200)
      expect(sessionsOf(server.calls)).to.deep.equal(['s2', 's3'])
      expect(gateway.records().at(-1)).to.include({ status: 'ok', retries: 1 })
    })
  })

  it('returns 404 if the server does not know the second session either', () =>
    withServer(
      (_message, response) => response.writeHead(404).end(),
      async (gateway, server) => {
        const response = await gateway.invoke('/mcp/files/echo@2.0.0')
        expect(response.status).to.equal(404)
        expect(sessionsOf(server.calls)).to.have.length(2)
      },
    ))

  it('reads the response from a stream, after other events', () =>
    withServer(
      ({ id }, response) =>
        events(
          response,
          ': hello\n\n',
          'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n',
          `data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`,
        ),
      async (gateway) => {
        const response = await gateway.invoke('/mcp/files/echo@2.0.0')
        expect(await response.json()).to.deep.equal({ content: [] })
      },
    ))

  for (const [what, reply] of Object.entries<Reply>({
    'the response to another request': (_message, response) =>
      json(response, { jsonrpc: '2.0', id: 'other', result: {} }),
    'text that is not JSON': (_message, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{')
    },
    'a page': (_message, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')
    },
    'a redirect': (_message, response) => {
      response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
    },
    'a stream without its response': (_message, response) => events(response, 'data:\n\n'),
    'half a response': (_message, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '9' })
      response.write('{')
      response.destroy()
    },
  })) {
    it(`does not accept as a response: ${what}`, () =>
      withServer(reply, async (gateway) => {
        const response = await gateway.invoke('/mcp/files/echo@2.0.0')
        expect(response.status).to.equal(502)
        const body = (await response.json()) as { error: string; sent: unknown }
        expect(body.error).to.equal('UPSTREAM_UNREACHABLE')
        expect([true, 'unknown']).to.include(body.sent)
      }))
  }

  it('calls a server without sessions by the revision of 2026-07-28', async () => {
    await using server = await startUpstream((call, response) => {
      const { id, method } = JSON.parse(call.body) as Message
      const meta = { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '3.0.0' } }
      if (method === 'initialize') {
        json(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }, 404)
      } else if (method === 'server/discover') json(response, { jsonrpc: '2.0', id, result: { _meta: meta } })
      else json(response, { jsonrpc: '2.0', id, result: { resultType: 'complete', content: [] } })
    })
    await using gateway = await startTestGateway({ targets: { files: `mcp+${server.url}` } })
    const response = await gateway.invoke('/mcp/files/%C3%A9cho@3.0.0', { a: 1 })
    expect(response.status).to.equal(200)
    const sent = server.calls.at(-1)
    expect(sent?.headers).to.include({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': `=?base64?${Buffer.from('écho').toString('base64')}?=`,
    })
    expect(JSON.parse(sent?.body ?? ''))
      .to.have.nested.property('params._meta')
      .that.deep.equals({
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'svc-gateway', version: '1.0.0' },
        'io.modelcontextprotocol/clientCapabilities': {},
      })
  })

  it('reports that nothing was sent if no session can be opened', async () => {
    let shakes = 0
    await using server = await startUpstream((call, response) => {
      const { id, method } = JSON.parse(call.body || '{}') as Message
      shakes += method === 'initialize' ? 1 : 0
      if (method !== 'initialize') response.writeHead(202).end()
      else if (shakes > 1) response.writeHead(503).end()
      else json(response, { jsonrpc: '2.0', id, result: info })
    })
    await using gateway = await startTestGateway({ targets: { files: `mcp+${server.url}` } })
    const response = await gateway.invoke('/mcp/files/echo@2.0.0')
    expect(response.status).to.equal(502)
    expect(await response.json()).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: false })
  })
})
