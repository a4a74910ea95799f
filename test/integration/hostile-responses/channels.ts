// The ways by which what a server sends reaches the gateway.
import type { Place } from './shapes.js'

/** The targets of the gateway; `good` behaves. */
type Target = 'plain' | 'tools' | 'json' | 'events' | 'stream' | 'federated' | 'stdio' | 'good'

export interface Channel {
  readonly target: Target
  readonly places: readonly Place[]
  /** The request of the caller. */
  readonly method: 'POST' | 'GET'
  readonly path: string
  /** The JSON-RPC method whose response has the hostile shape; undefined on the invoke face. */
  readonly rpc?: string
  readonly body?: object
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

export const channels = {
  invoke: {
    target: 'plain',
    places: ['value'],
    method: 'POST',
    path: '/mcp/plain/attack@1.0.0',
    body: {},
  },
  a2a: {
    target: 'plain',
    places: ['value'],
    method: 'POST',
    path: '/a2a/invoke',
    body: { to: 'plain', toolAtVersion: 'attack@1.0.0', args: {} },
  },
  'invoke to an MCP server': {
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
    places: ['value', 'id', 'rpc id'],
    method: 'POST',
    path: '/mcp/events',
    ...toolCall,
  },
  'a standing stream': { target: 'stream', places: ['value'], method: 'GET', path: '/mcp/stream' },
  'a list of several servers': {
    target: 'federated',
    places: ['value', 'pages', 'rpc id'],
    method: 'POST',
    path: '/mcp',
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
    places: ['value', 'id', 'rpc id'],
    method: 'POST',
    path: '/mcp/stdio',
    ...toolCall,
  },
} satisfies Readonly<Record<string, Channel>>

export type ChannelName = keyof typeof channels
