// An MCP server of the test's, and the MCP proxy in front of it.
import type { ServerResponse } from 'node:http'
import type { ReferenceRule } from '@svc/core'
import { TestProxy, type TestProxyOptions } from './mcp-proxy.js'
import { startUpstream, type UpstreamCall } from './upstream.js'

export type Message = Record<string, unknown>
export type HttpResponse = (message: Message, response: ServerResponse, call: UpstreamCall) => void

export const info = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  serverInfo: { name: 's', version: '2.0.0' },
}
export const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params: {} }
export const callEcho = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'echo', arguments: { a: 1 } },
}
const ok = { content: [{ type: 'text', text: 'hi' }] }

export function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export function events(response: ServerResponse, ...parts: string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(parts.join(''))
}

export const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** An MCP server that responds to the handshake, with `sessionId` if it is given, and leaves the rest to the test. */
export async function serverOf(respond: HttpResponse, sessionId?: string) {
  const upstream = await startUpstream((call, response) => {
    const message = JSON.parse(call.body || '{}') as Message
    if (sessionId !== undefined) response.setHeader('mcp-session-id', sessionId)
    if (message['method'] === 'initialize')
      json(response, { jsonrpc: '2.0', id: message['id'], result: info })
    else respond(message, response, call)
  })
  return { upstream, url: `${upstream.url}/mcp?tenant=1` }
}

export async function withProxy(
  response: HttpResponse,
  use: (proxy: TestProxy, calls: readonly UpstreamCall[]) => Promise<void>,
  over: TestProxyOptions = {},
): Promise<void> {
  const { upstream, url } = await serverOf(response)
  const proxy = new TestProxy(url, over)
  try {
    await use(proxy, upstream.calls)
  } finally {
    await proxy[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  }
}

export const result = (message: Message, value: unknown = ok) => ({
  jsonrpc: '2.0',
  id: message['id'],
  result: value,
})
export const denyAll: ReferenceRule = (reference) => ({
  reason: 'tool_not_in_allowlist',
  stage: 'test',
  detail: reference,
})
