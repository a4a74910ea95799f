// Writes the outcome of a call to its client.
import {
  type Call,
  type Completed,
  type Denied,
  type Failed,
  isRefusal,
  isStream,
  type MaybePromise,
  type Outcome,
  type ResponseHeaders,
  type ResponseStream,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { traceparentOf } from '../upstream/headers.js'
import type { ClientExchange } from './client-exchange.js'
import { type EventStreamRules, eventStreamRules } from './event-stream-rules.js'
import { type BufferedResponse, NO_SNIFF } from './response.js'

/** Writes `outcome` for `call`. Waits until the last byte is handed over or the client has disconnected. */
export function writeOutcome(
  exchange: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  encode: (outcome: Denied | Failed, call: Call) => BufferedResponse,
): MaybePromise<void> {
  if (outcome.kind !== 'completed') return exchange.whole(encode(outcome, call), call)
  const { status, headers, body } = outcome
  if (isStream(body)) return writeStream(exchange, call, outcome, body)
  return exchange.whole({ status: shownStatus(call, status), headers, body }, call)
}

/** Over MCP a 401 or 403 of a server is an error of the call, which its body holds; only the gateway's own are HTTP's. */
function shownStatus({ protocol }: Call, status: number): number {
  return protocol === 'mcp' && (status === 401 || status === 403) ? 200 : status
}

async function writeStream(
  exchange: ClientExchange,
  call: CallControl,
  outcome: Completed,
  body: ResponseStream,
): Promise<void> {
  const headers: ResponseHeaders = { ...outcome.headers }
  delete headers['content-length']
  headers[NO_SNIFF] = 'nosniff'
  headers['x-trace-id'] = call.trace.traceId
  headers['x-span-id'] = call.trace.spanId
  headers['traceparent'] = traceparentOf(call)
  const rules = call.get(eventStreamRules)
  if (!exchange.isDisconnected && !exchange.isBegun) {
    exchange.begin(outcome.status, headers)
    // Some proxies and clients wait for the first byte of the body.
    if (rules !== undefined) exchange.keepAlive()
  }
  // A call whose outcome must be recorded is read to its end, until it has settled.
  const mustDrain = (): boolean => body.drainWhenAbandoned === true && !call.isSettled
  // A stream may be silent for hours: a disconnect must end it without waiting for its next piece.
  const abandoned = new AbandonedResponse(call, rules)
  const disconnect = (): void => {
    call.disconnect()
    if (mustDrain()) abandoned.begin()
    else call.abort('CANCELLED', 'The caller disconnected before the response was complete.')
  }
  const stopListening = exchange.onDisconnect(disconnect)
  if (exchange.isDisconnected) disconnect()
  const keepAlive =
    rules === undefined ? undefined : setInterval(() => exchange.keepAlive(), rules.keepAliveMs).unref()
  try {
    for await (const chunk of body) {
      if (exchange.isDisconnected) {
        // The connection is gone before its event says so: the server's stream must end too.
        if (!mustDrain()) return disconnect()
        abandoned.read(chunk.bytes.byteLength)
        continue
      }
      keepAlive?.refresh()
      const unread = exchange.write(chunk.bytes)
      if (unread !== undefined) await unread
    }
  } catch (error) {
    if (exchange.isDisconnected && call.abortState.aborted) return
    // A stream that the drain ends is complete; the client opens a new one.
    if (!isDraining(call)) throw error
  } finally {
    clearInterval(keepAlive)
    abandoned.end()
    stopListening()
  }
  exchange.end()
}

/** Limits what is read for the record alone after the caller has left. */
class AbandonedResponse {
  #call: Call
  #rules: EventStreamRules | undefined
  #timer: NodeJS.Timeout | undefined
  #bytes = 0

  constructor(call: Call, rules: EventStreamRules | undefined) {
    this.#call = call
    this.#rules = rules
  }

  begin(): void {
    if (this.#rules === undefined) return
    this.#timer = setTimeout(() => this.#cancel(), this.#rules.abandonedMs).unref()
  }

  read(bytes: number): void {
    this.#bytes += bytes
    if (this.#rules !== undefined && this.#bytes > this.#rules.abandonedBytes) this.#cancel()
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #cancel(): void {
    this.#call.abort('CANCELLED', 'The caller left, and the response did not come in time.')
  }
}

function isDraining({ abortState }: Call): boolean {
  return isRefusal(abortState.reason) && abortState.reason.code === 'DRAINING'
}
