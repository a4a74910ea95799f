// The ids of servers' requests and events, and the tokens by which a client reports progress. Those of several servers may
// be equal, so a client gets each with the name of its server.
import { withIds } from '@svc/core/http'
import { isJsonObject, type JsonObject, parseJsonObject } from '@svc/core/json'
import { isRequestId, type Message } from '../mcp/message.js'
import { metaOf, withMeta } from '../mcp/meta.js'
import type { RequestId } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'

const COLON = 0x3a

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
  given: unknown,
  encoding: BufferEncoding = 'utf8',
): { readonly server: string; readonly id: RequestId } | undefined {
  if (typeof given !== 'string') return undefined
  const { server, id } = parseJsonObject(Buffer.from(given, encoding).toString()) ?? {}
  return typeof server === 'string' && isRequestId(id) ? { server, id } : undefined
}

/** The event with an id that names the server. */
export function withClientEventId(server: string, bytes: Uint8Array): Uint8Array {
  // A comment has no id, and need not be UTF-8.
  if (bytes[0] === COLON || !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes('id'))
    return bytes
  return withIds(bytes, (id) => Buffer.from(clientId(server, id)).toString('base64url'))
}

/** The server and its own id in a `Last-Event-ID`; undefined for other ids. */
export function serverEventId(given: unknown): ReturnType<typeof serverIdOf> {
  return serverIdOf(given, 'base64url')
}
