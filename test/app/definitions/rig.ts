// A gateway that knows definitions, in front of a server whose definitions the test changes.
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { json, result } from '../../support/mcp-server.js'
import { startUpstream } from '../../support/upstream.js'

type Fields = Record<string, unknown>

interface Definitions {
  instructions?: string
  tools: Fields[]
  prompts?: Fields[]
  resourceTemplates?: Fields[]
}

export const search = (description = 'Searches.'): Fields => ({
  name: 'search',
  description,
  inputSchema: { type: 'object', properties: { q: { type: 'string' } } },
})

export interface Rig extends AsyncDisposable {
  readonly gateway: TestGateway
  /** The address of the server. */
  readonly upstream: string
  /** What the server lists from now on. */
  readonly server: Definitions
  /** Names of the tools that the server ran. */
  readonly ran: string[]
  /** The result of a request, or its error. */
  ask(method: string, params?: Fields, path?: string, headers?: Record<string, string>): Promise<Fields>
  /** Names of the tools that a client is shown. */
  tools(): Promise<unknown[]>
  /** The reason for which a call of the tool is refused; undefined if it ran. */
  refused(name?: string): Promise<unknown>
}

const STATELESS = '2026-07-28'

export async function definitionsRig(
  protections: NonNullable<GatewaySettings['protections']>,
  options: Partial<GatewaySettings> | ((home: string) => Partial<GatewaySettings>) = {},
): Promise<Rig> {
  const server: Definitions = { tools: [search()] }
  const ran: string[] = []
  const lists: Record<string, () => Fields> = {
    'tools/list': () => ({ tools: server.tools }),
    'prompts/list': () => ({ prompts: server.prompts ?? [] }),
    'resources/templates/list': () => ({ resourceTemplates: server.resourceTemplates ?? [] }),
    'resources/list': () => ({ resources: [] }),
    'prompts/get': () => ({ messages: [] }),
  }
  const upstream = await startUpstream((call, response) => {
    const message = JSON.parse(call.body || '{}') as { method?: string; params?: Fields }
    const described = {
      capabilities: { tools: {}, prompts: {}, resources: {} },
      ...(server.instructions === undefined ? {} : { instructions: server.instructions }),
    }
    const { method = '', params = {} } = message
    const serverInfo = { name: 's', version: '1.0.0' }
    if (method === 'initialize') {
      return json(response, result(message, { protocolVersion: '2025-11-25', serverInfo, ...described }))
    }
    if (method === 'server/discover') {
      const _meta = { 'io.modelcontextprotocol/serverInfo': serverInfo }
      const modern = {
        resultType: 'complete',
        supportedVersions: [STATELESS],
        ttlMs: 0,
        cacheScope: 'private',
      }
      return json(response, result(message, { ...modern, ...described, _meta }))
    }
    if (method === 'tools/call') ran.push(String(params['name']))
    const listed = lists[method]
    if (listed !== undefined) return json(response, result(message, listed()))
    if (method.startsWith('notifications/')) return response.writeHead(202).end()
    return json(response, result(message))
  })
  const gateway = await startTestGateway((home) => ({
    targets: { files: upstream.url },
    protections,
    ...(typeof options === 'function' ? options(home) : options),
  }))
  const ask: Rig['ask'] = async (method, params = {}, path = '/mcp/files', headers = {}) => {
    const response = await postMcp(`${gateway.url}${path}`, { id: 1, method, params }, headers)
    const text = await response.text()
    const message = JSON.parse(text.replace(/^(?:.*\n)*?data: (?=\{)/, '').trim()) as Fields
    return (message['result'] ?? message['error'] ?? message) as Fields
  }
  return {
    gateway,
    upstream: upstream.url,
    server,
    ran,
    ask,
    async tools() {
      const { tools } = await ask('tools/list')
      return (tools as Fields[]).map(({ name }) => name)
    },
    async refused(name = 'search') {
      const { data } = await ask('tools/call', { name, arguments: {} })
      return (data as Fields | undefined)?.['denial_reason']
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}
