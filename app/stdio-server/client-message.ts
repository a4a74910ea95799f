// What the bridge reads of a client's message: which headers repeat it over HTTP, and whether a response is owed.
import { parseJsonObject } from '@svc/core/json'
import { encoded } from '../mcp/header-text.js'
import { nameSources } from '../mcp/header-validation.js'
import { isFields } from '../mcp/listing.js'
import { isStateless, META_PROTOCOL_VERSION } from '../mcp/protocol.js'

export interface ClientMessage {
  /** As the client sent it; the gateway judges it. */
  readonly text: string
  /** Undefined for a response, and for what is no message. */
  readonly method: string | undefined
  /** Undefined for what gets no response. */
  readonly id: unknown
  /** Empty where there are none. */
  readonly params: Readonly<Record<string, unknown>>
  /** Whether it is a request of a revision without sessions, which a client cancels by closing its stream. */
  readonly isStatelessRequest: boolean
}

export function readClientMessage(text: string): ClientMessage {
  const { method, id, params } = parseJsonObject(text) ?? {}
  const isRequest = typeof method === 'string' && id !== undefined
  const known = isFields(params) ? params : {}
  const version = versionIn(known)
  return {
    text,
    method: typeof method === 'string' ? method : undefined,
    id: isRequest ? id : undefined,
    params: known,
    isStatelessRequest: isRequest && version !== undefined && isStateless(version),
  }
}

/** The headers that repeat the message (2026-07-28, Streamable HTTP, "Request Metadata"); none for older revisions. */
export function repeatedInHeaders(message: ClientMessage): Record<string, string> {
  const version = versionIn(message.params)
  if (version === undefined) return {}
  const headers = { 'mcp-protocol-version': version }
  if (!message.isStatelessRequest || message.method === undefined) return headers
  const source = nameSources.get(message.method)
  const name = source === undefined ? undefined : message.params[source]
  return {
    ...headers,
    'mcp-method': message.method,
    ...(typeof name === 'string' ? { 'mcp-name': encoded(name) } : {}),
  }
}

function versionIn(params: ClientMessage['params']): string | undefined {
  const meta = params['_meta']
  const version = isFields(meta) ? meta[META_PROTOCOL_VERSION] : undefined
  return typeof version === 'string' ? version : undefined
}
