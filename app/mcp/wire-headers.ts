// The MCP headers in both directions. Only listed headers are passed on.
import type { ResponseHeaders } from '@svc/core'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE } from '../http/media-type.js'
import { lastEventIdOf, type McpExchange } from './exchange.js'
import { PARAM_PREFIX } from './param-headers.js'
import { serverSessionId } from './session-binding.js'

/** Headers that are passed on unchanged, after a check of those that repeat the body. */
const toUpstream = [PROTOCOL_VERSION_HEADER, 'mcp-method', 'mcp-name']

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
  copy(headers, SESSION_ID_HEADER, serverSessionId(exchange))
  copy(headers, LAST_EVENT_ID_HEADER, lastEventIdOf(exchange))
  for (const name in exchange.headers) {
    if (name.startsWith(PARAM_PREFIX)) copy(headers, name, exchange.headers[name])
  }
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
