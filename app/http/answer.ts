// Writes an outcome as an HTTP answer.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import {
  type AnswerHeaders,
  type AnswerStream,
  type Call,
  type CallTrace,
  type Completed,
  type Denied,
  type Failed,
  isRefusal,
  isStream,
  type MaybePromise,
  type Outcome,
  type Sent,
  statusOf,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { traceparentOf } from '../upstream/headers.js'
import { isDisconnected, onDisconnect } from './disconnect.js'
import { type EventStreamRules, eventStreamRules } from './event-stream-rules.js'

/** An answer that is written in one go. */
export interface WholeAnswer {
  readonly status: number
  readonly headers: AnswerHeaders
  readonly body: string | Uint8Array
}

/** What an error tells of its call. */
export interface ErrorSubject extends Pick<Call, 'sent'> {
  readonly trace: Pick<CallTrace, 'traceId'>
}

/** For a request that became no call. */
export function noCall(traceId: string): ErrorSubject {
  return { trace: { traceId }, sent: 'no' }
}

/** The error object of every refusal and failure. */
export function errorObject(
  outcome: Denied | Failed,
  { trace, sent }: ErrorSubject,
): Record<string, unknown> {
  const { denial, escalation } = outcome.kind === 'denied' ? outcome : {}
  return {
    error: outcome.code,
    message: outcome.message,
    ...(denial?.level === undefined ? {} : { denial_level: denial.level }),
    ...(denial?.type === undefined ? {} : { denial_type: denial.type }),
    ...(denial?.reason === undefined ? {} : { denial_reason: denial.reason }),
    ...(escalation === undefined
      ? {}
      : { escalation_id: escalation.id, escalation_status: escalation.status }),
    sent: sentOnTheWire(sent),
    trace_id: trace.traceId,
  }
}

function sentOnTheWire(sent: Sent): boolean | 'unknown' {
  return sent === 'unknown' ? 'unknown' : sent === 'yes'
}

/** A refusal in the JSON error shape, under the status of its code. */
export function refusalAnswer(outcome: Denied | Failed, call: ErrorSubject): WholeAnswer {
  const status = statusOf(outcome.code)
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(status === 503 || status === 429 ? { 'retry-after': '1' } : {}),
      ...outcome.headers,
    },
    // The newline is for terminals.
    body: `${JSON.stringify(errorObject(outcome, call))}\n`,
  }
}

/** Writes the refusal of a request that became no call. */
export function writeRefusal(response: ServerResponse, refusal: Denied, traceId: string): void {
  const answer = refusalAnswer(refusal, noCall(traceId))
  response.setHeader('x-trace-id', traceId)
  writeWhole(response, answer)
}

/** Writes `outcome` for `call`. Waits until the last byte is handed over or the client has disconnected. */
export function writeOutcome(
  response: ServerResponse,
  control: CallControl,
  outcome: Outcome,
  encode: (outcome: Denied | Failed) => WholeAnswer,
): MaybePromise<void> {
  if (outcome.kind !== 'completed') return writeWhole(response, encode(outcome), control.call)
  const { status, headers, body } = outcome
  if (isStream(body)) return writeStream(response, control, outcome, body)
  return writeWhole(response, { status, headers, body }, control.call)
}

/** A browser must not read a body that an upstream wrote as another type than it says. */
const NO_SNIFF = 'x-content-type-options'

/** Headers that only `writeWhole` sets. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-length',
  NO_SNIFF,
  'x-trace-id',
  'x-span-id',
  'traceparent',
])

export function writeWhole(response: ServerResponse, answer: WholeAnswer, call?: Call): void {
  if (isDisconnected(response)) return
  const length = typeof answer.body === 'string' ? Buffer.byteLength(answer.body) : answer.body.byteLength
  // node:http writes a list as it is; it would copy an object and check each header.
  const list: OutgoingHttpHeader[] = []
  for (const name in answer.headers) if (!ownHeaders.has(name)) list.push(name, answer.headers[name] ?? '')
  if (!bodyless(answer.status)) list.push('content-length', length)
  list.push(NO_SNIFF, 'nosniff')
  if (call !== undefined) {
    const { traceId, spanId } = call.trace
    list.push('x-trace-id', traceId, 'x-span-id', spanId, 'traceparent', traceparentOf(call))
  }
  response.writeHead(answer.status, list)
  if (bodyless(answer.status)) response.end()
  else endWith(response, answer.body)
}

/** A body of up to this many bytes is sent in one piece with its head. */
const JOINED_BYTES = 16_384

/** Node:http writes the head and a text as one string, but the head and bytes by a vectored write, which costs more. */
function endWith(response: ServerResponse, body: string | Uint8Array): void {
  if (typeof body === 'string' || body.byteLength > JOINED_BYTES) response.end(body)
  else {
    // Latin-1 is a character for each byte, so any bytes survive.
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    response.end(bytes.toString('latin1'), 'latin1')
  }
}

/** RFC 9110 §6.4.1: these statuses carry no content. */
function bodyless(status: number): boolean {
  return status === 204 || status === 304
}

async function writeStream(
  response: ServerResponse,
  control: CallControl,
  outcome: Completed,
  body: AnswerStream,
): Promise<void> {
  const { call } = control
  const headers: AnswerHeaders = { ...outcome.headers }
  delete headers['content-length']
  headers[NO_SNIFF] = 'nosniff'
  headers['x-trace-id'] = call.trace.traceId
  headers['x-span-id'] = call.trace.spanId
  headers['traceparent'] = traceparentOf(call)
  if (!isDisconnected(response)) {
    response.writeHead(outcome.status, headers)
    response.flushHeaders()
  }
  // A call whose outcome must be recorded is read to its end, until it has settled.
  const mustDrain = (): boolean => body.drainWhenAbandoned === true && !call.isSettled
  // A stream may be silent for hours: a disconnect must end it without waiting for its next piece.
  const rules = call.get(eventStreamRules)
  const abandoned = new Abandoned(call, rules)
  const disconnect = (): void => {
    control.disconnect()
    if (mustDrain()) abandoned.begin()
    else call.abort('CANCELLED', 'The caller disconnected before the answer was complete.')
  }
  const stopListening = onDisconnect(response, disconnect)
  if (isDisconnected(response)) disconnect()
  const keepAlive =
    rules === undefined ? undefined : setInterval(() => comment(response), rules.keepAliveMs).unref()
  try {
    for await (const chunk of body) {
      if (isDisconnected(response)) {
        if (!mustDrain()) return
        abandoned.read(chunk.bytes.byteLength)
        continue
      }
      keepAlive?.refresh()
      if (!response.write(chunk.bytes)) await drained(response)
    }
  } catch (fault) {
    if (isDisconnected(response) && call.abortState.aborted) return
    // A stream that the drain ends is complete; the client opens a new one.
    if (!isDraining(call)) throw fault
  } finally {
    clearInterval(keepAlive)
    abandoned.end()
    stopListening()
  }
  response.end()
}

/** Limits what is read for the record alone once the caller has left. */
class Abandoned {
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
    this.#call.abort('CANCELLED', 'The caller left, and the answer did not come in time.')
  }
}

/** Keeps the connection in use for whatever is between the gateway and the caller. */
function comment(response: ServerResponse): void {
  if (!response.writableNeedDrain && !isDisconnected(response)) response.write(':\n\n')
}

function isDraining({ abortState }: Call): boolean {
  return isRefusal(abortState.reason) && abortState.reason.code === 'DRAINING'
}

/** Resolves when more may be written, or the client has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done)
      stopListening()
      resolve()
    }
    const stopListening = onDisconnect(response, done)
    response.once('drain', done)
  })
}
