// The ids of servers' requests to a client, and the tokens by which it reports progress. Those of several servers may be
// equal, so a client gets each with the name of its server.
import { isJsonObject, type JsonObject, type JsonValue, parseJsonObject } from '@svc/core/json'
import { isRequestId, type Message, type RequestId } from '../mcp/message.js'
import { metaOf, withMeta } from '../mcp/meta.js'
import type { Fields } from '../mcp/rpc-response.js'

/** A server's message with ids for the client. */
export function withClientIds(server: string, message: Fields): Fields {
  const { method, id, params } = message
  const named = id === undefined ? message : { ...message, id: clientId(server, id) }
  if (!isJsonObject(params)) return named
  if (method === 'notifications/cancelled') {
    return { ...named, params: { ...params, requestId: clientId(server, params['requestId']) } }
  }
  const { progressToken } = metaOf(params)
  if (id === undefined || progressToken === undefined) return named
  return withMeta(named, { progressToken: clientId(server, progressToken) })
}

function clientId(server: string, id: unknown): string {
  return JSON.stringify({ server, id })
}

/**
 * The server that a response or a progress notification is for, and the message with the server's own ids; undefined if it
 * names no server.
 */
export function toServer(
  message: Message,
): { readonly server: string; readonly whole: JsonObject } | undefined {
  if (message.type === 'response') {
    const given = serverIdOf(message.id)
    return given && { server: given.server, whole: { ...message.whole, id: given.id } }
  }
  const { method, params, whole } = message
  if (method !== 'notifications/progress') return undefined
  const given = serverIdOf(params['progressToken'])
  return (
    given && { server: given.server, whole: { ...whole, params: { ...params, progressToken: given.id } } }
  )
}

function serverIdOf(
  given: JsonValue | undefined,
): { readonly server: string; readonly id: RequestId } | undefined {
  const parsed = typeof given === 'string' ? (parseJsonObject(given) as JsonValue | undefined) : undefined
  if (!isJsonObject(parsed)) return undefined
  const { server, id } = parsed
  return typeof server === 'string' && isRequestId(id) ? { server, id } : undefined
}
