// A server of MCP whose results are texts of the test, byte for byte, and what clients get of them at each face of a gateway.
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { STATELESS } from '../../support/mcp-revisions.js'
import { startUpstream } from '../../support/upstream.js'

export type Fields = Record<string, unknown>
export type Face =
  | 'handshake'
  | 'handshake, events'
  | 'a resumed stream'
  | 'stateless'
  | 'several servers'
  | 'invoke'

export interface RawServer extends AsyncDisposable {
  readonly gateway: TestGateway
  /** The text of the result by method, or of an error with its name; it gets the params. */
  readonly results: Record<string, ((params: Fields) => string) | undefined>
  /** Messages on a stream before and after a response, and on the stream of a session. */
  readonly events: { before: string[]; after: string[]; session: string[] }
  /** Names of the tools and prompts that the server ran. */
  readonly ran: string[]
  /** Methods of requests and notifications that came, but the handshake. */
  readonly methods: string[]
  /** The whole text that the client gets. `raw` is written in place of the value `@raw`. */
  ask(face: Face, method: string, params?: Fields, raw?: string): Promise<string>
}

/** The message in a response, or in its last event. */
export function messageIn(text: string): Fields {
  const [line = '{}'] = text
    .split('\n')
    .flatMap((one) => /^(?:data: )?(\{.*)$/.exec(one)?.[1] ?? [])
    .slice(-1)
  return JSON.parse(line) as Fields
}

/** The reason of a denial. */
export function reasonIn(text: string): unknown {
  const { error, denial_reason: direct } = messageIn(text) as { error?: Fields; denial_reason?: unknown }
  return direct ?? (error?.['data'] as Fields | undefined)?.['denial_reason']
}

export const client = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'c', version: '1' },
}

const serverInfo = { name: 's', version: '1.0.0' }
const handshakes: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: '2025-11-25', serverInfo },
  'server/discover': {
    resultType: 'complete',
    supportedVersions: [STATELESS],
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
  },
}
const capabilities = {
  tools: {},
  prompts: {},
  resources: {},
  completions: {},
  logging: {},
  tasks: { list: {} },
}

/** The result of a handshake as text, with more members. */
export function handshakeText(method: string, more: string): string {
  const own = JSON.stringify({ ...handshakes[method], capabilities })
  return more === '' ? own : `${own.slice(0, -1)},${more}}`
}

export async function startRawServer(settings: Partial<GatewaySettings>): Promise<RawServer> {
  const ran: string[] = []
  const methods: string[] = []
  const events: RawServer['events'] = { before: [], after: [], session: [] }
  const results: RawServer['results'] = {}
  /** What the stream of a request that broke off would have had. */
  let broken: string | undefined
  const upstream = await startUpstream((call, response) => {
    const isResumed = call.path.endsWith('/resumed')
    if (isResumed) response.setHeader('mcp-session-id', 's')
    if (call.method === 'GET' && broken !== undefined) {
      const all = [...events.before, broken, ...events.after, ...events.session]
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(all.map((one, i) => `id: ${i + 1}\ndata: ${one}\n\n`).join(''))
      return
    }
    const message = JSON.parse(call.body || '{}') as { id?: unknown; method?: string; params?: Fields }
    const { id, method = '', params = {} } = message
    if (handshakes[method] === undefined && method !== 'notifications/initialized') methods.push(method)
    if (id === undefined || method === '') return void response.writeHead(202).end()
    if (method === 'tools/call' || method === 'prompts/get') ran.push(String(params['name']))
    const result =
      results[method]?.(params) ?? (handshakes[method] === undefined ? '{}' : handshakeText(method, ''))
    const outcome = result.startsWith('"error"') ? result : `"result":${result}`
    const text = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${outcome}}`
    if (!/events$|resumed$/.test(call.path) || handshakes[method] !== undefined)
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(text)
    if (isResumed) {
      broken = text
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('id: 0\ndata:\n\n')
      return
    }
    const all = [...events.before, text, ...events.after]
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(all.map((one) => `data: ${one}\n\n`).join(''))
  })
  const gateway = await startTestGateway({
    targets: {
      files: `mcp+${upstream.url}/`,
      events: `${upstream.url}/events`,
      resumed: `${upstream.url}/resumed`,
    },
    federation: { list_ttl_ms: 0 },
    ...settings,
  })
  let session: Record<string, string> = {}
  const post = (path: string, message: Fields, raw = 'null', headers = {}): Promise<Response> =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }).replace('"@raw"', () => raw),
    })
  /** Of 2026-07-28, with the headers of the message. */
  const stateless = (method: string, params: Fields, raw?: string): Promise<Response> => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': STATELESS,
      'io.modelcontextprotocol/clientInfo': client.clientInfo,
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const name = params['name'] ?? params['uri']
    const headers = {
      'mcp-protocol-version': STATELESS,
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    }
    return post('/mcp/files', { method, params: { ...params, _meta } }, raw, headers)
  }
  const several = async (method: string, params: Fields, raw?: string): Promise<Response> => {
    if (method === 'initialize' || session['mcp-session-id'] === undefined) {
      const opened = await post('/mcp', { method: 'initialize', params: client })
      session = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
      if (method === 'initialize') return opened
      await opened.text()
    }
    return post('/mcp', { method, params }, raw, session)
  }
  const resumed = async (method: string, params: Fields): Promise<Response> => {
    const opened = await post('/mcp/resumed', { method: 'initialize', params: client })
    const headers = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
    if (method === 'initialize') return opened
    await opened.text()
    await (await post('/mcp/resumed', { method, params }, undefined, headers)).text()
    const accept = { accept: 'text/event-stream', 'last-event-id': '0', ...headers }
    const stream = await fetch(`${gateway.url}/mcp/resumed`, { headers: accept })
    // A stream with what is no message ends without its end.
    return new Response(await stream.text().catch(({ message }: Error) => message))
  }
  const sends: Readonly<Record<Face, (method: string, params: Fields, raw?: string) => Promise<Response>>> = {
    handshake: (method, params, raw) => post('/mcp/files', { method, params }, raw),
    'handshake, events': (method, params, raw) => post('/mcp/events', { method, params }, raw),
    'a resumed stream': resumed,
    stateless,
    'several servers': several,
    invoke: (_method, { name, arguments: args }, raw) =>
      gateway.invoke(`/mcp/files/${String(name)}@1.0.0`, raw ?? args),
  }
  return {
    gateway,
    results,
    events,
    ran,
    methods,
    ask: async (face, method, params = {}, raw) => (await sends[face](method, params, raw)).text(),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}
