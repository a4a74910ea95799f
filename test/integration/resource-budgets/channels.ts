// The ways by which what a peer sends reaches the gateway.
import type { Place } from './shapes.js'

/** The targets of the gateway; `good` behaves. */
type Target = 'plain' | 'tools' | 'json' | 'events' | 'stream' | 'federated' | 'stdio' | 'stderr' | 'good'

export interface Channel {
  readonly target: Target
  readonly places: readonly Place[]
  /** The request of the caller. */
  readonly method: 'POST' | 'GET'
  readonly path: string
  /** The JSON-RPC method whose response has the hostile shape; undefined on the invoke face. */
  readonly rpc?: string
  /** The body; if the caller attacks, the texts before and after the shape. */
  readonly body?: object | readonly [open: string, close: string]
  /** Number of sessions that are begun, one after the other, and not ended. */
  readonly sessions?: number
  /** Number of requests that are sent at a time. */
  readonly concurrent?: number
}

const toolCall = rpc('tools/call', { name: 'attack', arguments: {} })

function rpc(method: string, params: object): { readonly rpc: string; readonly body: object } {
  return { rpc: method, body: { jsonrpc: '2.0', id: 1, method, params } }
}

const initialize = rpc('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'caller', version: '1.0.0' },
})

const stateless = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"caller","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}`

export const channels = {
  'a response by invoke': {
    target: 'plain',
    places: ['value'],
    method: 'POST',
    path: '/mcp/plain/attack@1.0.0',
    body: {},
  },
  'a response to a2a': {
    target: 'plain',
    places: ['value'],
    method: 'POST',
    path: '/a2a/invoke',
    body: { to: 'plain', toolAtVersion: 'attack@1.0.0', args: {} },
  },
  'a response of an MCP server by invoke': {
    target: 'tools',
    places: ['value', 'rpc id'],
    method: 'POST',
    path: '/mcp/tools/attack@1.0.0',
    rpc: 'tools/call',
    body: {},
  },
  'a response over MCP': {
    target: 'json',
    places: ['value', 'id', 'rpc id'],
    method: 'POST',
    path: '/mcp/json',
    ...toolCall,
  },
  'responses over MCP at the same time': {
    target: 'json',
    places: ['value'],
    method: 'POST',
    path: '/mcp/json',
    concurrent: 24,
    ...toolCall,
  },
  'a handshake over MCP': {
    target: 'json',
    places: ['value', 'rpc id'],
    method: 'POST',
    path: '/mcp/json',
    ...initialize,
  },
  'a list over MCP': {
    target: 'json',
    places: ['value', 'pages', 'rpc id'],
    method: 'POST',
    path: '/mcp/json',
    ...rpc('tools/list', {}),
  },
  'an event over MCP': {
    target: 'events',
    places: ['value', 'id', 'rpc id', 'lines'],
    method: 'POST',
    path: '/mcp/events',
    ...toolCall,
  },
  'a notification stream': {
    target: 'stream',
    places: ['value', 'lines'],
    method: 'GET',
    path: '/mcp/stream',
  },
  'a list of several servers': {
    target: 'federated',
    places: ['value', 'pages', 'rpc id'],
    method: 'POST',
    path: '/mcp',
    ...rpc('tools/list', {}),
  },
  'lists in sessions that stay open': {
    target: 'federated',
    places: ['pages'],
    method: 'POST',
    path: '/mcp',
    sessions: 10,
    ...rpc('tools/list', {}),
  },
  'a call at several servers': {
    target: 'federated',
    places: ['value', 'id', 'rpc id'],
    method: 'POST',
    path: '/mcp',
    ...rpc('tools/call', { name: 'federated__attack', arguments: {} }),
  },
  'a process over stdio': {
    target: 'stdio',
    places: ['value', 'id', 'rpc id', 'lines'],
    method: 'POST',
    path: '/mcp/stdio',
    ...toolCall,
  },
  'standard error of a process': {
    target: 'stderr',
    places: ['value', 'lines'],
    method: 'POST',
    path: '/mcp/stderr',
    ...toolCall,
  },
  'the body of a call': {
    target: 'good',
    places: ['value'],
    method: 'POST',
    path: '/mcp/good/tool@1.0.0',
    body: ['{"value":', '}'],
  },
  'the bodies of calls at the same time': {
    target: 'good',
    places: ['value'],
    method: 'POST',
    path: '/mcp/good/tool@1.0.0',
    concurrent: 80,
    body: ['{"value":', '}'],
  },
  'a request over MCP': {
    target: 'json',
    places: ['value'],
    method: 'POST',
    path: '/mcp/json',
    body: [
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","arguments":{"value":',
      '}}}',
    ],
  },
  'the id of a request': {
    target: 'json',
    places: ['rpc id'],
    method: 'POST',
    path: '/mcp/json',
    body: ['{"jsonrpc":"2.0","method":"ping","id":', '}'],
  },
  'a task of a client': {
    target: 'json',
    places: ['id'],
    method: 'POST',
    path: '/mcp/json',
    body: ['{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":', '}}'],
  },
  'the subscriptions of a client': {
    target: 'federated',
    places: ['value'],
    method: 'POST',
    path: '/mcp',
    body: [
      `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":${stateless},"notifications":{"resourceSubscriptions":`,
      '}}}',
    ],
  },
  'the headers of a request': { target: 'good', places: ['headers'], method: 'GET', path: '/healthz' },
} satisfies Readonly<Record<string, Channel>>

export type ChannelName = keyof typeof channels
