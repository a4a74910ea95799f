// A server of MCP whose results are texts of the test, byte for byte, and what clients get of them at each face of a gateway.
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { STATELESS } from '../../support/mcp-revisions.js'
import { startUpstream } from '../../support/upstream.js'

export type Fields = Record<string, unknown>

const faces = ['handshake', 'handshake, events', 'stateless', 'several servers', 'invoke'] as const
export type Face = (typeof faces)[number]

export interface RawServer extends AsyncDisposable {
  readonly gateway: TestGateway
  /** The text of the result by method; it gets the params. */
  readonly results: Record<string, ((params: Fields) => string) | undefined>
  /** In place of a result: HTTP status, or messages before it on a stream. */
  status: number
  /** Names of the tools and prompts that the server ran. */
  readonly ran: string[]
  /** The whole text that the client gets. */
  ask(face: Face, method: string, params?: Fields, headers?: Record<string, string>): Promise<string>
}

export const messageIn = (text: string): Fields =>
  JSON.parse(/^(?:[^{]*data: )?(\{.*)$/ms.exec(text)?.[1]?.split('\n')[0] ?? '{}') as Fields

const serverInfo = { name: 's', version: '1.0.0' }
const info = { protocolVersion: '2025-11-25', serverInfo }
const discovered = {
  resultType: 'complete',
  supportedVersions: [STATELESS],
  ttlMs: 0,
  cacheScope: 'private',
  _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
}
const capabilities = { tools: {}, prompts: {}, resources: {} }

/** The members before those of the test, as text without the closing brace. */
export const handshakeText = (method: string, more: string): string => {
  const own = { ...(method === 'initialize' ? info : discovered), capabilities }
  return `${JSON.stringify(own).slice(0, -1)}${more === '' ? '' : `,${more}`}}`
}

export async function startRawServer(
  settings: Partial<GatewaySettings> | ((home: string) => Partial<GatewaySettings>),
  shared: { readonly url?: string } = {},
): Promise<RawServer & { readonly url: string }> {
  const ran: string[] = []
  const results: RawServer['results'] = {}
  const server = { status: 200, ran, results }
  const upstream = await startUpstream((call, response) => {
    const {
      id,
      method = '',
      params = {},
    } = JSON.parse(call.body || '{}') as {
      id?: unknown
      method?: string
      params?: Fields
    }
    if (id === undefined) {
      response.writeHead(202).end()
      return
    }
    if (method === 'tools/call' || method === 'prompts/get') ran.push(String(params['name']))
    const isHandshake = method === 'initialize' || method === 'server/discover'
    const result = results[method]?.(params) ?? (isHandshake ? handshakeText(method, '') : '{}')
    const text = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`
    const isEvents = call.headers['x-events'] === '1' || (call.path.endsWith('/events') && !isHandshake)
    const status = isHandshake ? 200 : server.status
    if (isEvents) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${text}\n\n`)
    } else response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  })
  const gateway = await startTestGateway((home) => ({
    targets: { files: shared.url ?? `mcp+${upstream.url}/`, events: `${upstream.url}/events` },
    federation: { list_ttl_ms: 0 },
    ...(typeof settings === 'function' ? settings(home) : settings),
  }))
  const session: Record<string, string> = {}
  const post = async (path: string, message: Fields, headers: Record<string, string>): Promise<Response> =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
    })
  return Object.assign(server, {
    gateway,
    url: upstream.url,
    async ask(face: Face, method: string, params: Fields = {}, headers: Record<string, string> = {}) {
      if (face === 'handshake') return (await post('/mcp/files', { method, params }, headers)).text()
      if (face === 'handshake, events') return (await post('/mcp/events', { method, params }, headers)).text()
      if (face === 'invoke') {
        const response = await gateway.invoke(
          `/mcp/files/${String(params['name'])}@1.0.0`,
          params['arguments'],
          headers,
        )
        return response.text()
      }
      if (face === 'stateless') {
        const _meta = {
          'io.modelcontextprotocol/protocolVersion': STATELESS,
          'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        }
        const name = params['name'] ?? params['uri']
        const more = {
          'mcp-protocol-version': STATELESS,
          'mcp-method': method,
          ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
          ...headers,
        }
        return (await post('/mcp/files', { method, params: { ...params, _meta } }, more)).text()
      }
      const isFirst = method === 'initialize' || session['mcp-session-id'] === undefined
      if (isFirst) {
        const client = {
          protocolVersion: '2025-11-25',
          capabilities: {},
          clientInfo: { name: 'c', version: '1' },
        }
        const opened = await post('/mcp', { method: 'initialize', params: client }, headers)
        session['mcp-session-id'] = String(opened.headers.get('mcp-session-id'))
        const text = await opened.text()
        if (method === 'initialize') return text
      }
      return (await post('/mcp', { method, params }, { ...session, ...headers })).text()
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  })
}
