// Reads the message of a client of several servers, and what the client says of itself.
import type { JsonObject } from '@svc/core/json'
import type { McpExchange } from '../mcp/exchange.js'
import { validateHeaders } from '../mcp/header-validation.js'
import { invalidRequest } from '../mcp/mcp-refusal.js'
import { idOf, isObject, type Message, parseBody, type RpcRequest, readMessage } from '../mcp/message.js'
import { META_CLIENT_CAPABILITIES, META_CLIENT_INFO, mediaType, STATELESS_REVISION } from '../mcp/protocol.js'
import { negotiatedRevision } from './description.js'
import type { ClientFacts } from './server-link.js'

/** Completes the exchange as far as the message is valid. Throws `McpRefusal`. */
export function readClientMessage(exchange: McpExchange, bytes: Uint8Array): Message {
  if (mediaType(exchange.headers['content-type']) !== 'application/json') {
    throw invalidRequest('content-type: expected application/json.')
  }
  const value = parseBody(bytes)
  exchange.id = idOf(value)
  if (Array.isArray(value)) throw invalidRequest('Batches are accepted at /mcp/<server> alone.')
  const message = readMessage(value)
  exchange.message = message
  validateHeaders(exchange.headers, message)
  return message
}

/** From the params of `initialize`. */
export function clientOfHandshake({ params }: RpcRequest): ClientFacts {
  return {
    revision: negotiatedRevision(params['protocolVersion']),
    capabilities: objectIn(params, 'capabilities'),
    clientInfo: objectIn(params, 'clientInfo'),
  }
}

/** From the `_meta` of a request without a session. */
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
  return isObject(value) ? value : {}
}
