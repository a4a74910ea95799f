// Reads the message of a client of several servers, and the client's description of itself.

import { withIds } from '@svc/core/http'
import { isJsonObject, type JsonObject, parseJsonObject, stringifyJson } from '@svc/core/json'
import { type McpExchange, revisionOf } from '../mcp/exchange.js'
import type { ClientFacts } from '../mcp/handshake.js'
import { checkRequestHead } from '../mcp/headers.js'
import {
  idOf,
  invalidParams,
  invalidRequest,
  isRequestId,
  McpRefusal,
  type Message,
  type RpcRequest,
  readMessage,
} from '../mcp/message.js'
import { metaOf, withMeta } from '../mcp/meta.js'
import {
  handshakeRevisions,
  isStateless,
  MAX_DESCRIPTION,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  type RequestId,
  rpcCodes,
  STATELESS_REVISION,
} from '../mcp/protocol.js'
import { jsonOf, type RequestBody } from '../mcp/request.js'
import { negotiatedRevision } from '../mcp/revision-translation.js'
import type { Fields } from '../mcp/rpc-response.js'

/** Completes the exchange as far as the message is valid. Throws `McpRefusal`. */
export function readExchangeMessage(exchange: McpExchange, body: RequestBody): Message {
  const value = jsonOf(body, exchange)
  exchange.id = idOf(value)
  const message = readMessage(value)
  exchange.message = message
  checkRequestHead(exchange, message)
  checkRevision(exchange, message)
  return message
}

function checkRevision(exchange: McpExchange, message: Message): void {
  const revision = revisionOf(exchange)
  const meta = message.type === 'request' ? objectIn(message.params, '_meta') : {}
  if (meta[META_PROTOCOL_VERSION] === undefined) {
    if (revision === undefined || isStateless(revision) || handshakeRevisions.includes(revision)) return
    throw invalidRequest('MCP-Protocol-Version: not a revision of this endpoint.')
  }
  if (revision !== STATELESS_REVISION) {
    const data = { supported: [STATELESS_REVISION], requested: revision }
    throw new McpRefusal(rpcCodes.unsupportedVersion, 'No such revision without sessions.', {
      status: 400,
      data,
    })
  }
  if (!isJsonObject(meta[META_CLIENT_CAPABILITIES])) {
    throw new McpRefusal(rpcCodes.invalidParams, `_meta["${META_CLIENT_CAPABILITIES}"] is missing.`, {
      status: 400,
    })
  }
}

/** The client that the params of `initialize` describe. */
export function clientOfHandshake({ params }: RpcRequest): ClientFacts {
  return {
    revision: negotiatedRevision(params['protocolVersion']),
    capabilities: objectIn(params, 'capabilities'),
    clientInfo: objectIn(params, 'clientInfo'),
  }
}

/** The client that the `_meta` of a request without a session describes. */
export function clientOfMessage(message: Message): ClientFacts {
  const meta = message.type === 'response' ? {} : objectIn(message.params, '_meta')
  return {
    revision: STATELESS_REVISION,
    capabilities: objectIn(meta, META_CLIENT_CAPABILITIES),
    clientInfo: objectIn(meta, META_CLIENT_INFO),
  }
}

function objectIn(fields: JsonObject, name: string): JsonObject {
  const value = fields[name]
  if (!isJsonObject(value)) return {}
  // A session keeps the object.
  if (JSON.stringify(value).length > MAX_DESCRIPTION) throw invalidParams(`${name}: too long.`)
  return value
}

// The ids of servers' requests and events, and the tokens by which a client reports progress. Those of several servers may
// be equal, so a client gets each with the name of its server.

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
  return stringifyJson({ server, id })
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
