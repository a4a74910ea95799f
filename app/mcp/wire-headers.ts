// The MCP headers in both directions. Only listed headers are passed on.
import type { ResponseHeaders } from '@svc/core'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE } from '../http/media-type.js'
import { lastEventIdOf, type McpExchange } from './exchange.js'
import { encoded } from './header-text.js'
import { PARAM_PREFIX } from './param-headers.js'
import { isStateless } from './protocol.js'
import { headersOfRequest, revisionIn } from './stateless-request.js'
import { TASKS_PREFIX } from './tasks.js'

/** Headers that are passed on unchanged, after a check of those that repeat the body. */
const toUpstream = [SESSION_ID_HEADER, PROTOCOL_VERSION_HEADER, 'mcp-method', 'mcp-name']

/** Headers about the message itself; the HTTP layer sets `content-length`. */
const toClient = [
  'content-type',
  'cache-control',
  'x-accel-buffering',
  'allow',
  'retry-after',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
]

/** Adds to `headers`, whose headers of the same names are replaced. */
export function addHeadersUpstream(headers: Record<string, string>, exchange: McpExchange): void {
  headers['accept'] = acceptOf(exchange)
  for (const name of toUpstream) copy(headers, name, exchange.headers[name])
  copy(headers, LAST_EVENT_ID_HEADER, lastEventIdOf(exchange))
  const { message, tasks, isHeaderless } = exchange
  if (isHeaderless === true) Object.assign(headers, headersRepeating(message))
  // The client's header has the client's task id.
  if (exchange.headers['mcp-name'] !== undefined && tasks[0] !== undefined && isOfTask(message)) {
    headers['mcp-name'] = encoded(tasks[0].id)
  }
  for (const name in exchange.headers) {
    if (name.startsWith(PARAM_PREFIX)) copy(headers, name, exchange.headers[name])
  }
}

/** The headers that a request of a revision without sessions needs, for a client that sent none. */
function headersRepeating(message: McpExchange['message']): Record<string, string> {
  if (message?.type !== 'request') return {}
  const revision = revisionIn(message.params)
  return revision !== undefined && isStateless(revision)
    ? headersOfRequest(revision, message.method, message.params)
    : {}
}

function isOfTask(message: McpExchange['message']): boolean {
  return message !== undefined && message.type !== 'response' && message.method.startsWith(TASKS_PREFIX)
}

export function headersToClient(from: ResponseHeaders): ResponseHeaders {
  const headers: ResponseHeaders = {}
  for (const name of toClient) {
    const value = from[name]
    if (value !== undefined) headers[name] = value
  }
  return headers
}

function acceptOf({ method, headers }: McpExchange): string {
  if (headers.accept !== undefined) return headers.accept
  return method === 'GET' ? EVENT_STREAM_TYPE : 'application/json, text/event-stream'
}

function copy(headers: Record<string, string>, name: string, value: string | string[] | undefined): void {
  if (typeof value === 'string') headers[name] = value
}
