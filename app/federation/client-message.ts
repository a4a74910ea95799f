// Reads the message of a client of several servers, and the client's description of itself.
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { type McpExchange, revisionOf } from '../mcp/exchange.js'
import type { ClientFacts } from '../mcp/handshake.js'
import { checkRequestHead } from '../mcp/header-validation.js'
import { invalidParams, invalidRequest, McpRefusal } from '../mcp/mcp-refusal.js'
import { idOf, type Message, type RpcRequest, readMessage } from '../mcp/message.js'
import { MAX_DESCRIPTION } from '../mcp/name-limits.js'
import {
  handshakeRevisions,
  isStateless,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  rpcCodes,
  STATELESS_REVISION,
} from '../mcp/protocol.js'
import { jsonOf, type RequestBody } from '../mcp/request.js'
import { negotiatedRevision } from '../mcp/revision-translation.js'

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
