// MCP servers over Streamable HTTP: the only place where a server's bytes become messages.
import { after, attempt, type Clock, type MaybePromise } from '@svc/core'
import { readEvent, type SseEvent, SseSplitter, withKnownFields } from '@svc/core/http'
import { isJsonObject, MAX_COST, stringifyJson } from '@svc/core/json'
import { countRetry } from '@svc/core/pipeline'
import { MessageRoom, type MessageRoomOptions } from '../budget/message-room.js'
import { lineBudget, lineCost, lineWindowMs } from '../budget/process-budgets.js'
import { PROTOCOL_VERSION_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import { discard } from '../upstream/discard.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import {
  decodedResponse,
  isConnectionLost,
  isUpstreamError,
  UpstreamError,
  type UpstreamResponse,
} from '../upstream/response.js'
import { limitBody } from '../upstream/response-limits.js'
import { budgetUserOf } from '../upstream/send.js'
import { decoded, encoded, nameSources } from './headers.js'
import { revisionIn } from './meta.js'
import { isStateless } from './protocol.js'
import { type Fields, isResponse, ProtocolViolation, readInTurns } from './rpc-response.js'
import { ServerCookies } from './server-cookies.js'
import {
  type McpEvent,
  type McpRequest,
  type McpResponse,
  type McpServers,
  type StreamLimits,
  WholeResponse,
} from './servers.js'

const ACCEPT = `${JSON_TYPE}, ${EVENT_STREAM_TYPE}`

export class HttpServers implements McpServers {
  #dispatcher: UpstreamDispatcher
  #unfinishedMs: number
  #clock: Pick<Clock, 'now'>
  /** Most servers set none. */
  #cookies: ServerCookies | undefined

  /** An event may hold room for `unfinishedMs` until it is complete. */
  constructor(dispatcher: UpstreamDispatcher, unfinishedMs: number, clock: Pick<Clock, 'now'>) {
    this.#dispatcher = dispatcher
    this.#unfinishedMs = unfinishedMs
    this.#clock = clock
  }

  async send(target: URL, request: McpRequest, onSent: () => void): Promise<McpResponse> {
    const { message, text, method, responseTimeoutMs, eventsMayPause, signal, call } = request
    const path = `${target.pathname}${target.search}`
    const headers = completed(request)
    const cookie = this.#cookies?.of(target, request)
    if (cookie !== undefined) headers['cookie'] = cookie
    const body = text ?? (message && stringifyJson(message))
    const sending = { method, path, headers, body, responseTimeoutMs, eventsMayPause, signal, call }
    let response: UpstreamResponse
    try {
      response = await this.#dispatcher.send(target, sending, onSent)
    } catch (error) {
      if (!isUpstreamError(error) || !isConnectionLost(error) || !isRepeatable(request)) throw error
      call?.[countRetry]()
      const again = { ...sending, isOnNewConnection: true }
      response = await this.#dispatcher.send(target, again, onSent).catch(failedAgain)
    }
    const { 'set-cookie': set } = response.headers
    if (set !== undefined) {
      this.#cookies ??= new ServerCookies(this.#clock)
      this.#cookies.keep(target, request, set)
    }
    const decoded = response.headers['content-encoding'] === undefined ? response : decodedResponse(response)
    return responseOf(decoded, target, request, this.#unfinishedMs)
  }
}

/** Requests that change nothing, or that change the same if they come twice. */
const repeatable: ReadonlySet<unknown> = new Set([
  ...['initialize', 'server/discover', 'ping', 'logging/setLevel', 'completion/complete', 'prompts/get'],
  ...['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list', 'tasks/list'],
  ...['resources/read', 'resources/subscribe', 'resources/unsubscribe', 'tasks/get', 'tasks/result'],
  ...['subscriptions/listen', 'notifications/initialized', 'notifications/cancelled'],
])

/** Whether a request may be sent again although the server may have got it: servers close connections as they are reused. */
function isRepeatable({ message, mayRunTwice, signal }: McpRequest): boolean {
  if (signal.aborted) return false
  return message === undefined || repeatable.has(message['method']) || mayRunTwice?.() === true
}

/** The first request may have been sent, whatever became of the second. */
function failedAgain(error: unknown): never {
  if (!isUpstreamError(error) || error.sent !== 'no') throw error
  throw new UpstreamError(error.message, 'unknown', { cause: error.cause })
}

/**
 * The headers of a request. From 2026-07-28 on they repeat parts of its message (Streamable HTTP, "Request Metadata"). They are
 * changed in place: they belong to one request, and a copy costs more than the rest of the request.
 */
function completed({ message, headers }: McpRequest): McpRequest['headers'] {
  headers['accept'] ??= ACCEPT
  headers['accept-encoding'] ??= 'identity'
  if (message === undefined) return headers
  headers['content-type'] ??= JSON_TYPE
  const { id, method, params } = message
  const revision = id === undefined ? undefined : revisionIn(params)
  const isStatelessRequest = revision !== undefined && isStateless(revision)
  const { 'mcp-name': given } = headers
  if (typeof method !== 'string' || !(isStatelessRequest || given !== undefined)) return headers
  const source = nameSources.get(method)
  const name = source !== undefined && isJsonObject(params) ? params[source] : undefined
  // A client's header has the client's id of a task.
  const isSame = typeof given === 'string' && decoded(given, 'mcp-name') === name
  if (typeof name === 'string' && !isSame) headers['mcp-name'] = encoded(name)
  if (isStatelessRequest)
    Object.assign(headers, { [PROTOCOL_VERSION_HEADER]: revision, 'mcp-method': method })
  return headers
}

function responseOf(
  { status, headers, body }: UpstreamResponse,
  target: URL,
  request: McpRequest,
  unfinishedMs: number,
): McpResponse {
  // An error is not a stream of events.
  if (mediaType(headers['content-type']) !== EVENT_STREAM_TYPE || status >= 400) {
    if (body instanceof Uint8Array) return new WholeResponse(status, headers, body)
    const declared = Number(headers['content-length'] ?? MAX_COST)
    const room = roomFor(request, target, declared)
    return new WholeResponse(status, headers, inRoom(body, room, request))
  }
  const end = (): void =>
    void discard(body, new UpstreamError('The upstream did not complete an event in time.', 'unknown'))
  const unfinished = { ms: unfinishedMs, end }
  const events = (limits: StreamLimits): AsyncIterable<McpEvent> =>
    eventsIn(body, limits, roomFor(request, target, MAX_COST, unfinished), target.host)
  return { status, headers, form: 'events', events, discard: () => discard(body) }
}

function roomFor(
  request: McpRequest,
  { host }: URL,
  maxBytes: number,
  unfinished?: MessageRoomOptions['unfinished'],
): MessageRoom {
  const user = { owner: budgetUserOf(request)?.owner ?? '', member: host }
  return new MessageRoom({
    user,
    maxBytes,
    signal: request.signal,
    ...(unfinished === undefined ? {} : { unfinished }),
  })
}

/** The body, of which no more than a small part is read while there is no room. It is in memory until the call settles. */
function inRoom(
  body: AsyncIterable<Uint8Array>,
  room: MessageRoom,
  { call, signal }: McpRequest,
): AsyncIterable<Uint8Array> & { destroy(): void } {
  const isOfCall = call !== undefined && !signal.aborted
  if (isOfCall) call.afterSettle(() => room.close())
  async function* pieces(): AsyncGenerator<Uint8Array> {
    let bytes = 0
    try {
      for await (const piece of body) {
        bytes += piece.byteLength
        await room.grow(bytes)
        yield piece
      }
    } finally {
      if (!isOfCall) room.close()
    }
  }
  return { [Symbol.asyncIterator]: pieces, destroy: () => void discard(body) }
}

async function* eventsIn(
  body: UpstreamResponse['body'],
  { maxBytes = Number.POSITIVE_INFINITY, maxEventBytes = MAX_COST }: StreamLimits,
  room: MessageRoom,
  host: string,
): AsyncGenerator<McpEvent> {
  const splitter = new SseSplitter(Math.min(maxEventBytes, MAX_COST))
  const limited = limitBody(body, maxBytes)
  try {
    for await (const piece of limited instanceof Uint8Array ? [limited] : limited) {
      for (const { bytes, isEvent } of splitter.push(piece)) {
        room.complete()
        const free = lineBudget.spend({ owner: host }, bytes.byteLength + lineCost, lineWindowMs)
        if (free !== undefined) await free
        yield isEvent ? eventIn(bytes) : { frame: bytes }
        room.free()
      }
      await room.grow(splitter.unfinished)
    }
  } finally {
    room.close()
  }
}

function eventIn(given: Uint8Array): MaybePromise<McpEvent> {
  const event = fieldsOf(given)
  // A field whose name begins with another byte order mark is data to clients that drop that one.
  const frame = event.hasOtherFields ? withKnownFields(given) : given
  const { id, data: text } = event
  return after(messageIn(event), (message) =>
    message === undefined ? { frame, id } : { frame, id, message, text },
  )
}

function fieldsOf(frame: Uint8Array): SseEvent {
  try {
    return readEvent(frame)
  } catch (cause) {
    throw new ProtocolViolation('The upstream sent an event that is not UTF-8.', { cause })
  }
}

/** An event of type `message` must hold a message; most clients ignore other types. */
function messageIn({ data, type }: SseEvent): MaybePromise<Fields | undefined> {
  if (data === '') return undefined
  const read = attempt<Fields, undefined>(
    () => readInTurns(data),
    (error) => {
      if (error instanceof ProtocolViolation && type !== 'message') return undefined
      throw error
    },
  )
  return after(read, (message) => {
    if (message !== undefined && type !== 'message' && isResponse(message))
      throw new ProtocolViolation('The upstream sent a response in an event that clients may ignore.')
    return message
  })
}
