// Turns an MCP server's response into the outcome of the call.
import {
  type CallRequest,
  type Completed,
  type Failed,
  failed,
  type Outcome,
  Refusal,
  type ResponseChunk,
  type ResponseStream,
} from '@svc/core'
import { eventOf, redirectInHost } from '@svc/core/http'
import { isJsonObject, stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import { noteHttpError } from '../upstream/send.js'
import { disconnectCancels, isStatelessExchange, type McpExchange } from './exchange.js'
import { headersToClient } from './headers.js'
import { type Denials, refusalMessage } from './message-outcome.js'
import type { RequestId } from './protocol.js'
import { ResponseFilter } from './response-filter.js'
import { McpResponseStream, passedEvent } from './response-stream.js'
import { ResumedResponses, type ResumedResponsesOptions } from './resumed-responses.js'
import { type Fields, failureOf, isResponse, ProtocolViolation, recordedResult } from './rpc-response.js'
import {
  type EventsResponse,
  hasMessage,
  type McpEvent,
  type McpResponse,
  responseTo,
  showEvent,
  showMessage,
  type WholeResponse,
} from './servers.js'
import { serverSessionId } from './session-binding.js'
import { LISTEN_METHOD } from './subject.js'

/** The parts for the handling of responses. */
export interface ResponseOptions extends ResumedResponsesOptions {
  /** Size of the response to one call, and of each event of a notification stream. */
  readonly maxResponseBytes: number
  readonly denials: Denials
}

/** The call that a response belongs to. */
export interface RespondedCall {
  readonly call: CallControl
  readonly exchange: McpExchange
  readonly request: CallRequest
}

interface ResponseContext extends RespondedCall {
  /** The id of the request that waits for a response; undefined for notifications and responses. */
  readonly id: RequestId | undefined
  readonly filter: ResponseFilter
  readonly parts: ResponseOptions
}

/** Rejects only for internal errors; a response that breaks the protocol is a failure of the upstream. */
export async function outcomeOfResponse(
  response: McpResponse,
  { call, exchange, request }: RespondedCall,
  options: ResponseOptions,
): Promise<Outcome> {
  const id = exchange.message?.type === 'request' ? exchange.message.id : undefined
  const filter = new ResponseFilter(call, request, exchange, options.caches)
  try {
    return await read(response, { call, exchange, request, id, filter, parts: options })
  } catch (error) {
    const outcome = failureOf(error)
    await response.discard()
    return outcome
  }
}

/** Throws `ProtocolViolation` for a redirect, or a content coding that is not decoded. */
export function checkHead(response: McpResponse, upstream: URL): void {
  const { status, headers } = response
  if (status >= 300 && status < 400) {
    const to = redirectInHost(upstream, response)
    throw new ProtocolViolation(
      to === undefined
        ? 'The upstream redirects; redirects are not followed.'
        : `The upstream redirects to ${new URL(to).pathname}; redirects are not followed: write ${to} in targets.`,
    )
  }
  const coding = headers['content-encoding']
  if (coding !== undefined && coding !== 'identity')
    throw new ProtocolViolation(
      `The upstream sent the content coding ${String(coding).slice(0, 40)}, which was not requested.`,
    )
}

async function read(response: McpResponse, context: ResponseContext): Promise<Outcome> {
  const { id } = context
  const { method, upstream } = context.exchange
  checkHead(response, upstream())
  if (response.status >= 400 && response.form !== 'events') return refusedByUpstream(response, context)
  if (id === undefined && method !== 'GET') {
    // The response to a notification is 202 without a body, so a client does not wait for a body.
    await response.discard()
    return completed(response, new Uint8Array(), { digest: null }, false)
  }
  if (response.form === 'events') return streamed(response, context)
  if (id === undefined)
    throw new ProtocolViolation('The upstream responded to a GET with something other than events.')
  if (response.form !== 'message')
    throw new ProtocolViolation(
      `The upstream responded with neither JSON nor events (status ${response.status}, ${typeIn(response)}).`,
    )
  return bufferedOutcome(response, context, id)
}

async function bufferedOutcome(
  response: WholeResponse,
  { exchange, filter, parts }: ResponseContext,
  id: RequestId,
): Promise<Outcome> {
  const received = responseTo(await response.message(parts.maxResponseBytes), id, exchange.clientId)
  const filtered = await filter.response(received.message, received.text)
  const { bytes, text } = showMessage(received, filtered)
  const outcome = completed(response, bytes, await recordedResult(filtered, text))
  outcome.headers['content-type'] = JSON_TYPE
  return outcome
}

/** Passes 4xx and 5xx on, with lists filtered; 401 and 403 as an error of the call. */
async function refusedByUpstream(response: WholeResponse, context: ResponseContext): Promise<Outcome> {
  const { call, exchange, id, filter, parts } = context
  const { maxResponseBytes } = parts
  if (mediaType(response.headers['content-type']) === EVENT_STREAM_TYPE)
    throw new ProtocolViolation('The upstream sent an error as a stream of events.')
  const bytes = await response.bytes(maxResponseBytes)
  const read = response.form === 'message' ? await messageIfAny(response, maxResponseBytes) : undefined
  const isForRequest = read !== undefined && isResponse(read.message) && read.message['id'] === id
  const received = isForRequest && id !== undefined ? responseTo(read, id, exchange.clientId) : read
  let shown = bytes
  if (received !== undefined) {
    const { message } = received
    const filtered = isResponse(message) ? await filter.response(message, received.text) : message
    shown = showMessage(received, filtered).bytes
  }
  // A server need not offer a stream of its own, nor let a session be ended (Streamable HTTP).
  if (response.status === 405 && context.exchange.method !== 'POST')
    return completed(response, shown, { digest: null })
  noteHttpError(call, response.status)
  if (response.status === 401 || response.status === 403)
    return unauthorizedByUpstream(response.status, received?.message, context)
  return completed(response, shown, { digest: null, error: 'UPSTREAM' })
}

/**
 * A client would take the server's 401 or 403 for the gateway's and sign in again, so it gets an error of the call. The
 * outcome keeps the status, by which stages know that the server has not acted.
 */
function unauthorizedByUpstream(
  status: 401 | 403,
  received: Fields | undefined,
  { call, exchange, id, parts }: ResponseContext,
): Outcome {
  const message = `The server ${exchange.server} responded with HTTP ${status}: it did not accept the credentials of the call.`
  const failure = failed('UPSTREAM', message, { upstreamStatus: status })
  if (id === undefined) return failure
  const { error } = received ?? {}
  const shown = refusalMessage(exchange, failure, call, isJsonObject(error) ? 'error' : parts.denials)
  const own = shown['error']
  const text = stringifyJson(
    isJsonObject(error) && isJsonObject(own)
      ? { ...shown, error: { ...error, data: { ...dataIn(error), ...dataIn(own) } } }
      : shown,
  )
  const headers = { 'content-type': JSON_TYPE }
  return { kind: 'completed', status, headers, body: Buffer.from(text), digest: null, error: 'UPSTREAM' }
}

/** Data of a server that is not an object has a member of its own. */
function dataIn({ data }: Fields): Fields {
  return isJsonObject(data) ? data : data === undefined ? {} : { data }
}

/** The type of a response for a message, without what a server could smuggle into it. */
function typeIn({ headers }: McpResponse): string {
  const type = mediaType(headers['content-type'])
  return type === '' ? 'no content type' : /^[\w.+/-]{1,60}$/.test(type) ? type : 'an invalid content type'
}

async function messageIfAny(response: WholeResponse, maxBytes: number): Promise<Received | undefined> {
  try {
    return await response.message(maxBytes)
  } catch (error) {
    if (error instanceof ProtocolViolation) return undefined
    throw error
  }
}

type Received = Awaited<ReturnType<WholeResponse['message']>>

function streamed(response: EventsResponse, context: ResponseContext): Completed {
  const { call, exchange, request, id, filter, parts } = context
  const { maxResponseBytes } = parts
  const encodeError = (outcome: Failed): string =>
    stringifyJson(refusalMessage(exchange, outcome, call, parts.denials))
  if (id === undefined || request.method === LISTEN_METHOD) {
    const events = response.events({ maxEventBytes: maxResponseBytes })
    const resumedResponses = new ResumedResponses(call, exchange, parts)
    const stream = notificationStream({ events, id, filter, resumedResponses, encodeError })
    return completed(response, stream, { digest: null })
  }
  const session = resumableSession(exchange, response.headers[SESSION_ID_HEADER])
  const stream = new McpResponseStream({
    clientId: exchange.clientId ?? id,
    events: response.events({ maxEventBytes: maxResponseBytes, maxBytes: maxResponseBytes }),
    id,
    drainWhenAbandoned: !disconnectCancels(exchange),
    filter,
    resumption: parts.resumableCalls.resumption(call, exchange, request, { session, id }),
    isCancelled: () => exchange.isCancelled === true,
    encodeError,
  })
  return completed(response, stream, { digest: null })
}

/**
 * The server's id of the session whose streams the client may resume; undefined if it may not resume any. `begun` is the
 * session that the response begins, if any.
 */
function resumableSession(exchange: McpExchange, begun: unknown): unknown {
  const { translation } = exchange
  if (translation?.isClientStateless === true || isStatelessExchange(exchange)) return undefined
  // On another stream, nothing says for which of the requests with one id the response is.
  if (exchange.clientId !== undefined) return undefined
  return serverSessionId(exchange) ?? begun
}

function completed(
  { status, headers: given }: McpResponse,
  body: Completed['body'],
  result: Pick<Completed, 'error'> & { digest: string | null },
  keepType = true,
): Completed {
  const headers = headersToClient(given)
  if (!keepType) delete headers['content-type']
  return { kind: 'completed', status, headers, body, ...result }
}

interface NotificationStreamOptions {
  readonly events: AsyncIterable<McpEvent>
  /** The id of the request that opened the stream; undefined on a GET. */
  readonly id: RequestId | undefined
  readonly filter: ResponseFilter
  readonly resumedResponses: ResumedResponses
  encodeError(outcome: Failed): string
}

/**
 * A stream of notifications, which the client keeps open (GET, `subscriptions/listen`): the call is recorded when the stream
 * opens. A GET that resumes the stream of another request carries that request's response.
 */
function notificationStream(options: NotificationStreamOptions): ResponseStream {
  return { [Symbol.asyncIterator]: () => chunksOf(options) }
}

async function* chunksOf(options: NotificationStreamOptions): AsyncGenerator<ResponseChunk> {
  let isUnrecorded = false
  const instead = (outcome: Failed): Uint8Array => {
    isUnrecorded = true
    return eventOf(options.encodeError(outcome))
  }
  yield { bytes: new Uint8Array(), response: { digest: null, instead } }
  if (isUnrecorded) return
  try {
    for await (const event of options.events) yield await passEvent(event, options)
  } catch (error) {
    const { code, message } = failureOf(error)
    throw new Refusal(code, message, { cause: error })
  }
}

async function passEvent(
  event: McpEvent,
  { id, filter, resumedResponses }: NotificationStreamOptions,
): Promise<ResponseChunk> {
  if (!hasMessage(event) || !isResponse(event.message)) return passedEvent(event, filter)
  if (id === undefined) return resumedResponses.chunkOf(event)
  const response = responseTo(event, id)
  return { bytes: showEvent(response, await filter.response(response.message, response.text)).bytes }
}
