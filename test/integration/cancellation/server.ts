// One tool behind each kind of target: over the invoke protocol, and over MCP with sessions, without, and by 2026-07-28.
import { json, type Message } from '../../support/mcp-server.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import type { Gates } from './gates.js'

const tools = [{ name: 'pay', inputSchema: { type: 'object' } }]
const serverInfo = { name: 's', version: '1.0.0' }
const info = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }
const modern = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
  _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
}

/** The last segment of the path says what the server is. */
type Kind = 'session' | 'plain' | 'modern'

export interface PayServer extends AsyncDisposable {
  readonly targets: Record<'rest' | Kind, string>
  /** The argument `n` of each payment that was asked for. */
  readonly paid: unknown[]
}

export async function startPayServer(gates: Gates): Promise<PayServer> {
  const paid: unknown[] = []
  const upstream: TestUpstream = await startUpstream(async ({ path, body }, response) => {
    const message = JSON.parse(body || '{}') as Message
    if (path.startsWith('/invoke/')) {
      paid.push(message['n'])
      await gates.atUpstream()
      json(response, { done: true })
      return
    }
    if (path === '/session') response.setHeader('mcp-session-id', 'one')
    if (message['id'] === undefined) {
      response.writeHead(202).end()
      return
    }
    const sendResult = (result: unknown) => json(response, { jsonrpc: '2.0', id: message['id'], result })
    const isModern = path === '/modern'
    const extra = isModern ? { resultType: 'complete', ttlMs: 1000, cacheScope: 'private' } : {}
    if (message['method'] === 'tools/call') {
      const { arguments: args } = message['params'] as { arguments: { n: unknown } }
      paid.push(args.n)
      await gates.atUpstream()
      sendResult({ ...extra, content: [{ type: 'text', text: 'paid' }] })
    } else if (message['method'] === 'tools/list') sendResult({ ...extra, tools })
    else if (message['method'] === 'initialize' && !isModern) sendResult(info)
    else if (message['method'] === 'server/discover' && isModern) sendResult(modern)
    else {
      const error = { code: -32601, message: 'Method not found' }
      json(response, { jsonrpc: '2.0', id: message['id'], error }, isModern ? 400 : 200)
    }
  })
  const { url } = upstream
  return {
    targets: { rest: url, session: `${url}/session`, plain: `${url}/plain`, modern: `${url}/modern` },
    paid,
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}
