// What the bridge reads of a client's message: which headers repeat it over HTTP, and whether a response is owed.
import { isJsonObject, parseJsonObject } from '@svc/core/json'
import { PROTOCOL_VERSION_HEADER } from '../http/header-names.js'
import { isStateless } from '../mcp/protocol.js'
import { headersOfRequest, revisionIn } from '../mcp/stateless-request.js'

export interface ClientMessage {
  /** As the client sent it; the gateway judges it. */
  readonly text: string
  /** Undefined for a response, and for text that is not a JSON-RPC message. */
  readonly method: string | undefined
  /** Undefined for a message that gets no response. */
  readonly id: unknown
  /** Empty where there are none. */
  readonly params: Readonly<Record<string, unknown>>
  /** Whether it is a request of a revision without sessions, which a client cancels by closing its stream. */
  readonly isStatelessRequest: boolean
}

export function readClientMessage(text: string): ClientMessage {
  const { method, id, params } = parseJsonObject(text) ?? {}
  const isRequest = typeof method === 'string' && id !== undefined
  const known = isJsonObject(params) ? params : {}
  const revision = revisionIn(known)
  return {
    text,
    method: typeof method === 'string' ? method : undefined,
    id: isRequest ? id : undefined,
    params: known,
    isStatelessRequest: isRequest && revision !== undefined && isStateless(revision),
  }
}

/** The headers that repeat the message (2026-07-28, Streamable HTTP, "Request Metadata"); none for older revisions. */
export function repeatedInHeaders(message: ClientMessage): Record<string, string> {
  const revision = revisionIn(message.params)
  if (revision === undefined) return {}
  const { method, params, isStatelessRequest } = message
  return isStatelessRequest && method !== undefined
    ? headersOfRequest(revision, method, params)
    : { [PROTOCOL_VERSION_HEADER]: revision }
}
