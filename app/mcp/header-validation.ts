// Headers that repeat parts of a message must agree with it, or a router and the server could see different calls
// (2026-07-28, Streamable HTTP, "Server Validation").
import type { IncomingHttpHeaders } from 'node:http'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import { isStatelessExchange, type McpExchange, revisionOf } from './exchange.js'
import { decoded, mismatch, single } from './header-text.js'
import { invalidParams, McpRefusal } from './mcp-refusal.js'
import type { Message } from './message.js'
import { metaOf, revisionIn } from './meta.js'
import { checkParamHeaders, PARAM_PREFIX } from './param-headers.js'
import { handshakeRevisions, isStateless, META_PROTOCOL_VERSION, rpcCodes } from './protocol.js'

/** The param that `Mcp-Name` repeats, by method. */
export const nameSources: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])
const nameRequired = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** Throws `McpRefusal` for a body that is not declared as JSON. */
export function checkContentType(headers: IncomingHttpHeaders): void {
  if (mediaType(headers['content-type']) === JSON_TYPE) return
  throw new McpRefusal(rpcCodes.invalidRequest, `content-type: expected ${JSON_TYPE}.`, { status: 415 })
}

/** Throws `McpRefusal` for a GET whose response, a stream of events, its client does not accept. */
export function checkAcceptsEvents({ accept }: IncomingHttpHeaders): void {
  if (accept === undefined) return
  const types = accept.split(',').map(mediaType)
  if ([EVENT_STREAM_TYPE, 'text/*', '*/*'].some((type) => types.includes(type))) return
  throw new McpRefusal(rpcCodes.invalidRequest, `accept: expected ${EVENT_STREAM_TYPE}.`, { status: 406 })
}

/** Throws `McpRefusal` for a message whose headers disagree with it, or that is not in a session and names no revision. */
export function checkRequestHead(exchange: McpExchange, message: Message): void {
  dropLeftovers(exchange, message)
  const { headers, isHeaderless, isHandshakeOnly, connection } = exchange
  if (isHandshakeOnly === true && message.type === 'request' && isStatelessExchange(exchange)) {
    const data = { supported: handshakeRevisions, requested: revisionOf(exchange) }
    throw new McpRefusal(rpcCodes.unsupportedVersion, 'This endpoint offers revisions with a handshake.', {
      status: 400,
      data,
    })
  }
  if (isHeaderless !== true) {
    validateHeaders(headers, message)
    return
  }
  if (message.type !== 'request' || message.method === 'initialize' || connection !== undefined) return
  // Over stdio the gateway sets these headers itself, for a message that names its revision and for one in a session.
  if (headers[PROTOCOL_VERSION_HEADER] ?? headers[SESSION_ID_HEADER]) return
  throw invalidParams(
    `_meta["${META_PROTOCOL_VERSION}"] is missing, and no initialize came before the request.`,
  )
}

/** A response of the client, or a GET or DELETE without a message. */
const noCall = { method: undefined, params: {} }

/**
 * Drops headers that have no meaning for the message, so that they neither refuse it nor go upstream: clients that have
 * probed for another revision, or that begin a session again, leave them set.
 */
export function dropLeftovers(exchange: McpExchange, message?: Message): void {
  const { headers } = exchange
  const { method, params } = message === undefined || message.type === 'response' ? noCall : message
  const isInitialize = method === 'initialize'
  const isNamed = revisionIn(params) !== undefined
  const isHandshake = !isNamed && (isInitialize || method === 'notifications/initialized')
  const isOfProbe = isStatelessExchange(exchange)
  const stateless = isNamed || (isOfProbe && !isHandshake)
  const hasNoSession = stateless || isInitialize
  // The body of `initialize` says which revision the client wants.
  const hasNoVersion = isHandshake && (isInitialize || isOfProbe)
  if (hasNoSession) exchange.sessionTag = undefined
  for (const name in headers) {
    const isLeftover =
      name === SESSION_ID_HEADER
        ? hasNoSession
        : name === PROTOCOL_VERSION_HEADER
          ? hasNoVersion
          : !stateless && (name === 'mcp-method' || name === 'mcp-name' || name.startsWith(PARAM_PREFIX))
    if (!isLeftover) continue
    const { [name]: _, ...others } = exchange.headers
    exchange.headers = others
  }
}

/** Throws `McpRefusal` (header mismatch): from 2026-07-28 on a request must have headers that agree with it. */
export function validateHeaders(headers: IncomingHttpHeaders, message: Message): void {
  if (!checkVersion(headers, message)) return
  const must = message.type === 'request'
  const method = single(headers, 'mcp-method')
  const name = single(headers, 'mcp-name')
  checkParamHeaders(headers, message)
  if (message.type === 'response') {
    if (method !== undefined || name !== undefined)
      throw mismatch('A response has no Mcp-Method or Mcp-Name.')
    return
  }
  if (method === undefined ? must : method !== message.method) {
    throw mismatch('Mcp-Method is missing or differs from the method in the body.')
  }
  const inBody = nameIn(message)
  if (
    name === undefined
      ? must && nameRequired.has(message.method) && typeof inBody === 'string'
      : decoded(name, 'Mcp-Name') !== inBody
  ) {
    throw mismatch('Mcp-Name is missing or differs from the name in the body.')
  }
}

/** Whether the revision is one without sessions. */
function checkVersion(headers: IncomingHttpHeaders, message: Message): boolean {
  const header = single(headers, PROTOCOL_VERSION_HEADER)
  const inBody = message.type === 'response' ? undefined : metaOf(message.params)[META_PROTOCOL_VERSION]
  const stateless = inBody !== undefined || (header !== undefined && isStateless(header))
  if (stateless && inBody === undefined && message.type === 'request' && message.method !== 'initialize') {
    throw new McpRefusal(rpcCodes.invalidParams, `_meta["${META_PROTOCOL_VERSION}"] is missing.`, {
      status: 400,
    })
  }
  if (
    stateless && message.type === 'request' ? header !== inBody : inBody !== undefined && header !== inBody
  ) {
    throw mismatch('MCP-Protocol-Version is missing or differs from the version in _meta.')
  }
  return stateless
}

function nameIn(message: Exclude<Message, { type: 'response' }>): unknown {
  const source = nameSources.get(message.method)
  return source === undefined ? undefined : message.params[source]
}
