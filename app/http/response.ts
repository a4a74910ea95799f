// Makes refusals into HTTP responses, and writes a whole response.

import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import {
  type Call,
  type CallTrace,
  type Denied,
  type Failed,
  type ResponseHeaders,
  type Sent,
  statusOf,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { traceparentOf } from '../upstream/send.js'

/** A response that is written at once. */
export interface BufferedResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: string | Uint8Array
}

/** The members of an error that describe its call. */
export interface ErrorSubject extends Pick<Call, 'sent'> {
  readonly trace: Pick<CallTrace, 'traceId'>
}

/** The subject of a request that became no call. */
export function noCall(traceId: string): ErrorSubject {
  return { trace: { traceId }, sent: 'no' }
}

/** The error object of every refusal and failure. */
export function errorObject(
  outcome: Denied | Failed,
  { trace, sent }: ErrorSubject,
): Record<string, unknown> {
  const { denial, escalation } = outcome.kind === 'denied' ? outcome : {}
  const { upstreamStatus } = outcome.kind === 'failed' ? outcome : {}
  return {
    error: outcome.code,
    message: outcome.message,
    ...defined({ denial_level: denial?.level, denial_type: denial?.type, denial_reason: denial?.reason }),
    ...(escalation === undefined
      ? {}
      : { escalation_id: escalation.id, escalation_status: escalation.status }),
    ...defined({ upstream_status: upstreamStatus }),
    sent: sentInJson(sent),
    trace_id: trace.traceId,
  }
}

function sentInJson(sent: Sent): boolean | 'unknown' {
  return sent === 'unknown' ? 'unknown' : sent === 'yes'
}

/** The seconds after which a caller may try again, as in `Retry-After`; undefined if that is not known. */
export function retryAfterOf({ code, headers }: Denied | Failed): string | undefined {
  const given = headers?.['retry-after']
  if (typeof given === 'string') return given
  const status = statusOf(code)
  return status === 503 || status === 429 ? '1' : undefined
}

/** A refusal in the JSON error shape, under the status of its code. */
export function refusalResponse(outcome: Denied | Failed, call: ErrorSubject): BufferedResponse {
  const retryAfter = retryAfterOf(outcome)
  return {
    status: statusOf(outcome.code),
    headers: {
      'content-type': 'application/json',
      ...defined({ 'retry-after': retryAfter }),
      ...outcome.headers,
    },
    // The newline makes it readable in terminals.
    body: `${JSON.stringify(errorObject(outcome, call))}\n`,
  }
}

/** Writes the refusal of a request that became no call. */
export function writeRefusal(response: ServerResponse, refusal: Denied, traceId: string): void {
  const buffered = refusalResponse(refusal, noCall(traceId))
  response.setHeader('x-trace-id', traceId)
  writeWhole(response, buffered)
}

/** Stops a browser from reading a body as another type than its upstream says. */
export const NO_SNIFF = 'x-content-type-options'

/** Headers that only `writeWhole` sets. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-length',
  NO_SNIFF,
  'x-trace-id',
  'x-span-id',
  'traceparent',
])

/** Whether the caller has disconnected. */
export function isDisconnected(response: ServerResponse): boolean {
  return response.destroyed || response.req.socket.destroyed
}

export function writeWhole(response: ServerResponse, buffered: BufferedResponse, call?: Call): void {
  if (isDisconnected(response)) return
  const length =
    typeof buffered.body === 'string' ? Buffer.byteLength(buffered.body) : buffered.body.byteLength
  // Node:http writes a list as it is; it would copy an object and check each header.
  const list: OutgoingHttpHeader[] = [NO_SNIFF, 'nosniff']
  for (const name in buffered.headers)
    if (!ownHeaders.has(name)) list.push(name, buffered.headers[name] ?? '')
  // RFC 9110 §6.4.1: responses with these statuses have no content.
  const isEmpty = buffered.status === 204 || buffered.status === 304
  if (!isEmpty) list.push('content-length', length)
  if (call !== undefined) {
    const { traceId, spanId } = call.trace
    list.push('x-trace-id', traceId, 'x-span-id', spanId, 'traceparent', traceparentOf(call))
  }
  response.writeHead(buffered.status, list)
  const { body } = buffered
  if (isEmpty) response.end()
  else if (typeof body === 'string' || length > JOINED_BYTES) response.end(body)
  else {
    // Node:http writes the head and a text as one string, but the head and bytes by a vectored write, which costs more.
    // Latin-1 has a character for each byte, so any bytes survive.
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    response.end(bytes.toString('latin1'), 'latin1')
  }
}

/** Size of bodies that are sent in one piece with their head. */
const JOINED_BYTES = 16_384
