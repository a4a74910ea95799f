// A line of a client over stdio, parsed once: the gateway gets the parsed message.
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { McpRefusal } from '../../mcp/mcp-refusal.js'
import { idOf, parseJsonBody } from '../../mcp/message.js'
import { revisionIn } from '../../mcp/meta.js'
import type { RequestId } from '../../mcp/protocol.js'
import { isStateless } from '../../mcp/protocol.js'
import type { RequestBody } from '../../mcp/request.js'
import type { Fields } from '../../mcp/rpc-response.js'

export interface ClientLine {
  /** The bytes of a line without a message: the gateway refuses it. */
  readonly body: RequestBody
  /** Undefined for a response, and for a line without a message. */
  readonly method: string | undefined
  /** Undefined for a notification or a response. */
  readonly id: RequestId | undefined
  /** Empty if the message has none. */
  readonly params: JsonObject
  /** The revision that the message names. */
  readonly revision: string | undefined
}

export function readLine(text: string): ClientLine {
  const bytes = Buffer.from(text)
  let value: JsonValue
  try {
    value = parseJsonBody(bytes)
  } catch (error) {
    if (!(error instanceof McpRefusal)) throw error
    return { body: bytes, method: undefined, id: error.id, params: {}, revision: undefined }
  }
  const { method, params } = isJsonObject(value) ? value : {}
  return {
    body: isJsonObject(value) ? { value, bytes: bytes.byteLength } : bytes,
    method: typeof method === 'string' ? method : undefined,
    id: idOf(value),
    params: isJsonObject(params) ? params : {},
    revision: revisionIn(params),
  }
}

/** Whether it is a request of a revision without sessions, which a client over HTTP cancels by closing its stream. */
export function isStatelessRequest({ id, revision }: ClientLine): boolean {
  return id !== undefined && revision !== undefined && isStateless(revision)
}

export function isResponseTo({ id }: ClientLine, message: Fields): boolean {
  return id !== undefined && message['id'] === id && !('method' in message)
}
