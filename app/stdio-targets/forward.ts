// Sends one request of a client to the process, and responds with what the process sends for it.
import { isJsonObject } from '@svc/core/json'
import { EVENT_STREAM_TYPE } from '../http/media-type.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { McpRequest, McpResponse } from '../mcp/servers.js'
import { isUpstreamError, UpstreamError } from '../upstream/response.js'
import type { ForwardedRequest } from './client-session.js'
import { PendingResponse } from './pending-response.js'
import type { StdioServer } from './stdio-server.js'
import type { Connection } from './supervisor.js'

/** A request of a client as the port gets it. */
export interface DispatchedRequest {
  readonly request: McpRequest
  readonly onSent: () => void
  /** Time limit for the first message of the response, in milliseconds. */
  readonly responseTimeoutMs: number
}

/** What differs between clients with and without sessions. */
export interface Forwarding {
  /** The request as the process gets it. */
  readonly message: Fields
  /** Gives the response as the client gets it. */
  readonly translate: (response: Fields) => Fields
  readonly statusOf: (response: Fields) => number
  /** Called when the request is sent; the returned function, when it has settled. */
  readonly track?: (running: ForwardedRequest) => () => void
}

/** Rejects with `UpstreamError`, or with the reason of the signal. */
export async function forward(
  server: StdioServer,
  connection: Connection,
  { request, onSent, responseTimeoutMs }: DispatchedRequest,
  { message, translate, statusOf, track }: Forwarding,
): Promise<McpResponse> {
  const { signal, headers, onHead } = request
  const release = await server.admit(request.caller?.() ?? '', signal)
  if (signal.aborted) {
    release()
    throw signal.reason
  }
  let cancel: (reason: string) => void = () => undefined
  let untrack: () => void = () => undefined
  const abort = (): void => {
    cancel('the caller has cancelled the request')
    pending.abort(signal.reason)
  }
  const pending = new PendingResponse({
    acceptsEvents: String(headers['accept'] ?? EVENT_STREAM_TYPE).includes(EVENT_STREAM_TYPE),
    translate,
    statusOf,
    onSettled: () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      untrack()
      release()
    },
    onLeave: () => cancel('the caller has left'),
  })
  const timer = setTimeout(() => {
    cancel('no response in time')
    pending.abort(new UpstreamError('The upstream did not respond in time.', 'unknown'))
    void checkResponses(connection, responseTimeoutMs)
  }, responseTimeoutMs)
  signal.addEventListener('abort', abort)
  onSent()
  untrack = track?.({ response: pending, cancel: (reason) => cancel(reason) }) ?? untrack
  cancel = connection.channel.request(withTraceHeaders(message, headers), pending)
  const response = await pending.begun
  clearTimeout(timer)
  onHead?.()
  return response
}

/** A process gets no headers: the trace of the call is in `_meta` (2026-07-28, "_meta"). */
function withTraceHeaders(message: Fields, { traceparent, tracestate }: McpRequest['headers']): Fields {
  if (traceparent === undefined) return message
  const params = isJsonObject(message['params']) ? message['params'] : {}
  const { tracestate: _, ...meta } = isJsonObject(params['_meta']) ? params['_meta'] : {}
  const trace = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
  return { ...message, params: { ...params, _meta: { ...meta, ...trace } } }
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
