// The gateway as a client of servers that lose sessions, or whose balancer pins them to a replica by a cookie.
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { ServerCookies } from 'svc-sdk/internal/mcp/server-cookies'
import type { McpRequest } from 'svc-sdk/internal/mcp/servers'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { lastMessage, postMcp } from '../../support/mcp-post.js'
import { info, initialize, json, type Message, result } from '../../support/mcp-server.js'
import { startUpstream, type UpstreamCall } from '../../support/upstream.js'

const errorOf = (code: number, message: string) => ({ code, message })
/** The status and the error by which servers say that they do not have a session. */
const dialects: Readonly<Record<string, readonly [status: number, error: object]>> = {
  'the status of the protocol': [404, errorOf(-32001, 'Session not found')],
  'an older SDK, without its session': [400, errorOf(-32000, 'Bad Request: No valid session ID provided')],
  'an older SDK, as it was restarted': [400, errorOf(-32000, 'Bad Request: Server not initialized')],
  'a server that demands a header': [400, errorOf(-32000, 'Bad Request: Mcp-Session-Id header is required')],
  'another server': [400, errorOf(-32600, 'Invalid or missing session ID')],
}
const inBody: typeof dialects = { 'the error alone': [200, errorOf(-32001, 'Session not found')] }
/** Errors of calls that have run. */
const others: typeof dialects = {
  'a tool about a session of its own': [200, errorOf(-32001, 'The session of the browser is gone')],
  'a tool whose request timed out': [200, errorOf(-32001, 'Request timed out')],
  'a server that refuses arguments': [400, errorOf(-32602, 'session: expected a text')],
}

interface ReplicatedServer extends AsyncDisposable {
  readonly url: string
  readonly calls: readonly UpstreamCall[]
  /** Whose calls ran, by the argument `who`. */
  readonly ran: string[]
  /** Ends all sessions; what their next requests get. */
  lose(response: readonly [status: number, error: object]): void
}

/** A server whose calls need a session; `cookie` is set by each response, as `admit` needs it. */
async function startServer(
  admit: (call: UpstreamCall, response: ServerResponse, session: string | undefined) => boolean = () => true,
): Promise<ReplicatedServer> {
  const sessions = new Set<string>()
  const ran: string[] = []
  let lost: readonly [number, object] = [404, errorOf(-32001, 'Session not found')]
  let begun = 0
  const upstream = await startUpstream((call, response) => {
    const message = JSON.parse(call.body || '{}') as Message
    const { method, id } = message
    const session = method === 'initialize' ? `s${++begun}` : call.headers['mcp-session-id']?.toString()
    const isAdmitted = admit(call, response, session)
    if (method === 'initialize') {
      sessions.add(String(session))
      response.setHeader('mcp-session-id', String(session))
      return json(response, result(message, { ...info, capabilities: { tools: {} } }))
    }
    if (id === undefined) return void response.writeHead(202).end()
    const [status, error] = lost
    if (!isAdmitted || !sessions.has(String(session)))
      return json(response, { jsonrpc: '2.0', id, error }, status)
    if (method === 'tools/list')
      return json(response, result(message, { tools: [{ name: 'x', inputSchema: { type: 'object' } }] }))
    ran.push((message['params'] as { arguments: { who: string } }).arguments.who)
    json(response, result(message))
  })
  return {
    url: `${upstream.url}/mcp`,
    calls: upstream.calls,
    ran,
    lose(response) {
      lost = response
      sessions.clear()
    },
    [Symbol.asyncDispose]: upstream[Symbol.asyncDispose],
  }
}

async function begin(url: string): Promise<(who: string) => Promise<object>> {
  const opened = await postMcp(url, initialize)
  await opened.text()
  const session = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
  await postMcp(url, { method: 'notifications/initialized' }, session)
  const name = url.endsWith('/mcp') ? 't__x' : 'x'
  return async (who) => {
    const message = { id: who, method: 'tools/call', params: { name, arguments: { who } } }
    return lastMessage(await postMcp(url, message, session))
  }
}

describe('a server that has lost the session', () => {
  let server: ReplicatedServer
  let gateway: TestGateway

  before(async () => {
    server = await startServer()
    gateway = await startTestGateway({ targets: { t: `mcp+${server.url}` } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  for (const [what, response] of Object.entries({ ...dialects, ...inBody })) {
    it(`gets the call once in a new session at /mcp, if it says so as ${what}`, async () => {
      const call = await begin(`${gateway.url}/mcp`)
      expect(await call('first')).to.have.property('result')
      server.lose(response)
      server.ran.length = 0
      expect(await call('second')).to.have.property('result')
      expect(server.ran).to.deep.equal(['second'])
    })
  }

  for (const [what, response] of Object.entries(dialects)) {
    it(`gets the call once in a new session by the invoke protocol, if it says so as ${what}`, async () => {
      await gateway.invoke('/mcp/t/x@unversioned', { who: 'first' })
      server.lose(response)
      server.ran.length = 0
      expect((await gateway.invoke('/mcp/t/x@unversioned', { who: 'second' })).status).to.equal(200)
      expect(server.ran).to.deep.equal(['second'])
      expect(gateway.records().at(-1)).to.include({ retries: 1 })
    })
  }

  for (const [what, response] of Object.entries(others)) {
    it(`is not meant by the error of ${what}, which runs once`, async () => {
      const call = await begin(`${gateway.url}/mcp`)
      expect(await call('first')).to.have.property('result')
      server.lose(response)
      const from = server.calls.length
      expect(await call('second')).to.have.property('error')
      const sent = server.calls.slice(from).filter(({ body }) => body.includes('tools/call'))
      expect(sent).to.have.length(1)
    })
  }
})

describe('the cookies of a server', () => {
  const replicas = new Map<string, string>()
  let turn = 0
  let server: ReplicatedServer
  let gateway: TestGateway
  const cookiesSent = (): (string | undefined)[] => server.calls.map(({ headers }) => headers.cookie)

  before(async () => {
    server = await startServer((call, response, session) => {
      const replica = /\bpin=(\d)/.exec(call.headers.cookie ?? '')?.[1] ?? String(turn++ % 2)
      response.setHeader('set-cookie', [
        `pin=${replica}; Path=/`,
        'secure=1; Secure',
        'elsewhere=1; Path=/other',
        'gone=1; Max-Age=0',
        `large=${'x'.repeat(5_000)}`,
        'broken',
      ])
      const home = replicas.get(String(session)) ?? replica
      replicas.set(String(session), home)
      return home === replica
    })
    gateway = await startTestGateway({ targets: { t: `mcp+${server.url}` } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  for (const path of ['/mcp/t', '/mcp']) {
    it(`bring each request of a session at ${path} to its replica, and do not reach the client`, async () => {
      const url = `${gateway.url}${path}`
      const opened = await postMcp(url, initialize)
      expect(opened.headers.get('set-cookie')).to.equal(null)
      const call = await begin(url)
      for (const who of ['a', 'b', 'c', 'd']) expect(await call(who)).to.have.property('result')
    })
  }

  it('are those that the server set for this address', () => {
    expect(cookiesSent().at(-1)).to.equal('pin=0')
  })

  it('are not those of a client', async () => {
    await using other = await startTestGateway({ targets: { t: server.url } })
    const from = server.calls.length
    await (await postMcp(`${other.url}/mcp/t`, { id: 1, method: 'tools/list' }, { cookie: 'pin=1' })).text()
    expect(cookiesSent()[from]).to.equal(undefined)
  })

  it('go to one origin, with the credential that they came for, until they expire', () => {
    let now = 1_000
    const cookies = new ServerCookies({ now: () => now })
    const requestWith = (authorization: string): McpRequest => ({
      method: 'POST',
      headers: { authorization },
      signal: new AbortController().signal,
    })
    const url = new URL('https://a.example/mcp')
    cookies.keep(url, requestWith('Bearer 1'), ['pin=1; Max-Age=60; Path=/', 'secure=1; Secure'])
    expect(cookies.of(url, requestWith('Bearer 1'))).to.equal('pin=1; secure=1')
    expect(cookies.of(url, requestWith('Bearer 2'))).to.equal(undefined)
    expect(cookies.of(new URL('https://b.example/mcp'), requestWith('Bearer 1'))).to.equal(undefined)
    now += 60_000
    expect(cookies.of(url, requestWith('Bearer 1'))).to.equal('secure=1')
  })
})
