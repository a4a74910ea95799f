// The limits of the response to one call, for every protocol: its size (`server.maxResponseBytes`), and the time until it
// begins if the policy does not limit that.
import {
  type Call,
  failed,
  isStream,
  type MaybePromise,
  type Outcome,
  Refusal,
  type ResponseChunk,
  responseTimeLeft,
  verdict,
} from '@svc/core'
import { readBounded } from '@svc/core/http'
import { discard } from './discard.js'
import type { UpstreamResponse } from './response.js'

export function responseTooLarge(maxBytes: number): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `The response is over ${maxBytes} bytes.`)
}

/** The body up to `maxBytes`. Throws, or rejects while it is read, with `Refusal` (`PAYLOAD_TOO_LARGE`). */
export function limitBody(body: UpstreamResponse['body'], maxBytes: number): UpstreamResponse['body'] {
  if (!(body instanceof Uint8Array)) return limitChunks(body, maxBytes, ({ byteLength }) => byteLength)
  if (body.byteLength > maxBytes) throw responseTooLarge(maxBytes)
  return body
}

/** The body in memory. Throws or rejects as `limitBody`, or rejects with `UpstreamError` or the reason of the abort. */
export function wholeBody(body: UpstreamResponse['body'], maxBytes: number): MaybePromise<Uint8Array> {
  if (!(body instanceof Uint8Array)) return joinBody(body, maxBytes)
  if (body.byteLength > maxBytes) throw responseTooLarge(maxBytes)
  return body
}

async function joinBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const { bytes, isCut } = await readBounded(body, maxBytes)
  if (isCut) throw responseTooLarge(maxBytes)
  return bytes
}

/** The response with its body up to `maxBytes`; throws `Refusal` at once if its head says that it is longer. */
export function limitResponse(response: UpstreamResponse, maxBytes: number): MaybePromise<UpstreamResponse> {
  const { headers, body } = response
  if (body instanceof Uint8Array) {
    if (body.byteLength > maxBytes) throw responseTooLarge(maxBytes)
    return response
  }
  if (Number(headers['content-length']) > maxBytes)
    return discard(body).then(() => Promise.reject(responseTooLarge(maxBytes)))
  return { ...response, body: limitBody(body, maxBytes) }
}

/** The outcome of a program's own dispatch, with a response up to `maxBytes`. */
export function limitOutcome(outcome: Outcome, maxBytes: number): Outcome {
  if (outcome.kind !== 'completed') return outcome
  const { body } = outcome
  if (isStream(body)) {
    const chunks = (): AsyncGenerator<ResponseChunk> =>
      limitChunks(body, maxBytes, ({ bytes }) => bytes.byteLength)
    return { ...outcome, body: { ...body, [Symbol.asyncIterator]: chunks } }
  }
  if (body.byteLength <= maxBytes) return outcome
  const { code, message } = responseTooLarge(maxBytes)
  return failed(code, message)
}

async function* limitChunks<T>(
  pieces: AsyncIterable<T>,
  maxBytes: number,
  sizeOf: (piece: T) => number,
): AsyncGenerator<T> {
  let bytes = 0
  for await (const piece of pieces) {
    bytes += sizeOf(piece)
    if (bytes > maxBytes) throw responseTooLarge(maxBytes)
    yield piece
  }
}

/** In observe mode nothing fails that would have worked without the gateway. */
const OBSERVED_MS = 3_600_000
const ENFORCED_MS = 300_000
/** The longest time of a timer. */
const NO_LIMIT = 2_147_483_647

/** In milliseconds. A call that `security.limits.max_duration_ms` ends has no other limit. */
export function responseTimeoutOf(call: Call): number {
  if (call.get(responseTimeLeft)?.() !== undefined) return NO_LIMIT
  return call.get(verdict)?.mode === 'observe' ? OBSERVED_MS : ENFORCED_MS
}

/** The message of a call that failed because of the limit, with the key that changes it. */
export function noResponseWithin(ms: number): string {
  return `The upstream did not respond within ${ms / 1000} s; server.upstreamTimeoutMs raises that limit.`
}
