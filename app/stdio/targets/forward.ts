// Sends one request of a client to the process. The response is a message if it comes first, else a stream of messages
// that the response ends.
import { stringifyJson } from '@svc/core/json'
import { noOwner } from '../../budget/budget.js'
import { EVENT_STREAM_TYPE } from '../../http/media-type.js'
import { metaOf, replaceMeta } from '../../mcp/meta.js'
import type { Fields } from '../../mcp/rpc-response.js'
import { type McpRequest, type McpResponse, messageResponse } from '../../mcp/servers.js'
import { isUpstreamError, UpstreamError } from '../../upstream/response.js'
import { noResponseWithin } from '../../upstream/response-limits.js'
import { budgetUserOf } from '../../upstream/send.js'
import { MessageStream } from './message-stream.js'
import type { Connection, PendingRequest } from './rpc-channel.js'
import type { StdioServer } from './stdio-server.js'

/** The longest time limit for a ping, in milliseconds. */
const PING_MS = 60_000

/** A request of a client as the port gets it. */
export interface DispatchedRequest {
  readonly request: McpRequest
  readonly onSent: () => void
  /** Time limit for the first message of the response, in milliseconds. */
  readonly responseTimeoutMs: number
}

/** The parts that differ between clients with and without sessions. */
export interface Forwarding {
  /** The request as the process gets it. */
  readonly message: Fields
  /** Gives the response as the client gets it. */
  readonly translate: (response: Fields) => Fields
  readonly statusOf: (response: Fields) => number
  /** The running requests of the client's session, by their ids. */
  readonly running?: Map<unknown, ForwardedRequest> | undefined
}

/** Rejects with `UpstreamError`, or with the reason of the signal. */
export async function forward(
  server: StdioServer,
  connection: Connection,
  { request, onSent, responseTimeoutMs }: DispatchedRequest,
  forwarding: Forwarding,
): Promise<McpResponse> {
  const { signal, headers } = request
  const release = await server.admit(budgetUserOf(request) ?? noOwner, signal)
  if (signal.aborted) {
    release()
    throw signal.reason
  }
  let cancel: (reason: string) => void = () => undefined
  const { message } = forwarding
  const abort = (): void => running.fail(signal.reason, 'the caller has cancelled the request')
  const acceptsEvents = String(headers['accept'] ?? EVENT_STREAM_TYPE).includes(EVENT_STREAM_TYPE)
  const running = new ForwardedRequest(forwarding, acceptsEvents, (reason) => {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
    forwarding.running?.delete(message['id'])
    release()
    if (reason !== undefined) cancel(reason)
  })
  const timer = setTimeout(() => {
    running.fail(new UpstreamError(noResponseWithin(responseTimeoutMs), 'unknown'), 'no response in time')
    void checkResponses(connection, Math.min(responseTimeoutMs, PING_MS))
  }, responseTimeoutMs)
  signal.addEventListener('abort', abort)
  onSent()
  forwarding.running?.set(message['id'], running)
  cancel = connection.channel.request(withTraceHeaders(message, headers), running)
  const response = await running.begun
  clearTimeout(timer)
  request.call?.firstByte()
  return response
}

/** A process gets no headers: the trace of the call is in `_meta` (2026-07-28, "_meta"). */
function withTraceHeaders(message: Fields, { traceparent, tracestate }: McpRequest['headers']): Fields {
  if (traceparent === undefined) return message
  const { tracestate: _, ...meta } = metaOf(message['params'])
  const trace = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
  return replaceMeta(message, { ...meta, ...trace })
}

/** Kills a process that was silent for too long and does not respond to a ping within `timeoutMs`. Does not reject. */
export async function checkResponses(
  { channel, server, kill }: Connection,
  timeoutMs: number,
): Promise<void> {
  try {
    const method = server.isStateless ? 'server/discover' : 'ping'
    await channel.ask(method, {}, AbortSignal.timeout(timeoutMs))
  } catch (error) {
    // The channel of a process that has ended rejects with an UpstreamError.
    if (!isUpstreamError(error)) kill('it responded neither to a request nor to a ping')
  }
}

/** A request that the process works on. */
export class ForwardedRequest implements PendingRequest {
  readonly begun: Promise<McpResponse>
  #resolve: (response: McpResponse) => void = () => undefined
  #reject: (reason: unknown) => void = () => undefined
  #forwarding: Forwarding
  #acceptsEvents: boolean
  #onSettled: (reason?: string) => void
  #stream: MessageStream | undefined
  #isSettled = false

  /** `onSettled` runs once: with the reason why nobody waits for the response any more, if the process still works on it. */
  constructor(forwarding: Forwarding, acceptsEvents: boolean, onSettled: (reason?: string) => void) {
    this.#forwarding = forwarding
    this.#acceptsEvents = acceptsEvents
    this.#onSettled = onSettled
    this.begun = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  response(response: Fields, text: string): void {
    if (this.#isSettled) return
    const { translate, statusOf } = this.#forwarding
    const message = translate(response)
    const shown = message === response ? text : stringifyJson(message)
    if (this.#stream === undefined)
      this.#resolve(messageResponse({ message, text: shown }, statusOf(message)))
    else this.#stream.end(message, shown)
    this.#settle()
  }

  /** Sends a message before the response; false if it cannot be sent. */
  offer(message: Fields, text?: string): boolean {
    return this.#acceptsEvents && !this.#isSettled && this.#events().offer(message, text)
  }

  /** Ends without a response, as the client waits for none. */
  cancel(reason: string): void {
    if (this.#isSettled) return
    this.#events().end()
    this.#settle(reason)
  }

  /** `reason` is for a process that still works on the request. */
  fail(error: unknown, reason?: string): void {
    if (this.#isSettled) return
    if (this.#stream === undefined) this.#reject(error)
    else this.#stream.fail(error)
    this.#settle(reason)
  }

  #events(): MessageStream {
    if (this.#stream === undefined) {
      this.#stream = new MessageStream(() => {
        if (!this.#isSettled) this.#settle('the caller has left')
      })
      this.#resolve(this.#stream)
    }
    return this.#stream
  }

  #settle(reason?: string): void {
    this.#isSettled = true
    this.#onSettled(reason)
  }
}
