// Headers of MCP: those that are passed on, and those that repeat parts of a message. The latter must agree with it, or a
// router and the server could see different calls (2026-07-28, Streamable HTTP, "Server Validation").
import type { IncomingHttpHeaders } from 'node:http'
import type { ResponseHeaders } from '@svc/core'
import { canonicalNumber, isJsonNumber, isJsonObject, type JsonNumber, type JsonValue } from '@svc/core/json'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import { isStatelessExchange, lastEventIdOf, type McpExchange, revisionOf } from './exchange.js'
import type { Message } from './message.js'
import { invalidParams, McpRefusal } from './message.js'
import { metaOf, revisionIn } from './meta.js'
import { handshakeRevisions, isStateless, META_PROTOCOL_VERSION, rpcCodes } from './protocol.js'
import { serverSessionId } from './session-binding.js'

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
  if (hasNoSession) exchange.session = undefined
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

// Reads the text of headers that repeat parts of a message.

const visible = /^[\t\x20-\x7e]*$/
const sentinel = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/

export function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !visible.test(value)) throw mismatch(`${name}: unreadable value.`)
  return value
}

/** "Value Encoding": text that is not plain ASCII is sent as `=?base64?…?=`. */
export function decoded(value: string, header: string): string {
  const base64 = sentinel.exec(value)?.[1]
  if (base64 === undefined) return value
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.toString('base64') !== base64) throw mismatch(`${header}: not Base64.`)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw mismatch(`${header}: not UTF-8.`, { cause })
  }
}

/** "Value Encoding" of text for a header. */
export function encoded(text: string): string {
  const isPlain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?/i.test(text)
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`
}

export function mismatch(message: string, options?: ErrorOptions): McpRefusal {
  return new McpRefusal(rpcCodes.headerMismatch, message, options)
}

// Checks headers that repeat arguments of a tool (2026-07-28, "Custom Headers"): a router and the server must see the same
// call.

export const PARAM_PREFIX = 'mcp-param-'

/**
 * Throws `McpRefusal` (header mismatch). Only the tool's schema tells which argument a header repeats, so a header agrees
 * if an argument of its name has its value or, without such an argument, if any argument has its value.
 */
export function checkParamHeaders(headers: IncomingHttpHeaders, message: Message): void {
  const names = Object.keys(headers).filter((name) => name.startsWith(PARAM_PREFIX))
  if (names.length === 0) return
  const values = new ArgumentValues(new Set(names.map((name) => name.slice(PARAM_PREFIX.length))))
  if (message.type === 'request' && message.method === 'tools/call') {
    values.add(message.params['arguments'] ?? {}, '')
  }
  for (const header of names) {
    const text = decoded(single(headers, header) ?? '', header)
    if (!values.has(header.slice(PARAM_PREFIX.length), text)) {
      throw mismatch(`${header}: differs from the arguments in the body.`)
    }
  }
}

/** The values in the arguments, at any depth, that are not an array or object. */
class ArgumentValues {
  #all = new Set<string>()
  #byName: ReadonlyMap<string, Set<string>>

  /** `names` are in lower case, as header names are. */
  constructor(names: ReadonlySet<string>) {
    this.#byName = new Map([...names].map((name) => [name, new Set()]))
  }

  /** An array's items have the name of the array. */
  add(value: JsonValue, name: string): void {
    if (Array.isArray(value)) for (const item of value) this.add(item, name)
    else if (isJsonObject(value)) for (const [member, inner] of Object.entries(value)) this.add(inner, member)
    else {
      const key = isJsonNumber(value) ? numberKey(value) : textKey(String(value))
      this.#all.add(key)
      this.#byName.get(name.toLowerCase())?.add(key)
    }
  }

  has(name: string, text: string): boolean {
    const named = this.#byName.get(name)
    const values = named === undefined || named.size === 0 ? this.#all : named
    return values.has(textKey(text)) || (text.trim() !== '' && values.has(numberKey(text.trim())))
  }
}

function textKey(text: string): string {
  return `text ${text}`
}

/** Equal for equal decimals. */
function numberKey(value: number | JsonNumber | string): string {
  const text = String(value)
  return `number ${canonicalNumber(text) ?? Number(text)}`
}

// The MCP headers in both directions. Only listed headers are passed on.

/** Headers that are passed on unchanged, after a check of those that repeat the body. */
const toUpstream: ReadonlySet<string> = new Set([PROTOCOL_VERSION_HEADER, 'mcp-method', 'mcp-name'])

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
  const { method, headers: given } = exchange
  const accepted = method === 'GET' ? EVENT_STREAM_TYPE : `${JSON_TYPE}, ${EVENT_STREAM_TYPE}`
  headers['accept'] = given.accept ?? accepted
  for (const name in given) {
    const value = given[name]
    const isPassedOn = toUpstream.has(name) || name.startsWith(PARAM_PREFIX)
    if (isPassedOn && typeof value === 'string') headers[name] = value
  }
  const session = serverSessionId(exchange)
  if (typeof session === 'string') headers[SESSION_ID_HEADER] = session
  const last = method === 'GET' ? lastEventIdOf(exchange) : undefined
  if (typeof last === 'string') headers[LAST_EVENT_ID_HEADER] = last
}

export function headersToClient(from: ResponseHeaders): ResponseHeaders {
  const headers: ResponseHeaders = {}
  for (const name of toClient) {
    const value = from[name]
    if (value !== undefined) headers[name] = value
  }
  return headers
}
