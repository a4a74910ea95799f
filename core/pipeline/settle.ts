// Holds a response back until its call has settled: a complete response whole, a stream at its last chunk.
import { createHash } from 'node:crypto'
import type { Settlement } from '../call/call.js'
import { type CallControl, isCallControl } from '../call/call-control.js'
import { settle } from '../call/control-operations.js'
import { type ErrorCode, isRefusal, Refusal, statusOf } from '../call/errors.js'
import type { MaybePromise } from '../call/maybe-promise.js'
import {
  type Completed,
  type Denied,
  type Failed,
  failed,
  isStream,
  type Outcome,
  type ResponseChunk,
  type Sent,
} from '../call/outcome.js'
import { sha256Hex } from '../json/hash.js'

/** Settles the call and returns the outcome, or the failure that replaces it. */
export function settled(call: CallControl, outcome: Outcome): MaybePromise<Outcome> {
  if (outcome.kind === 'completed' && !(outcome.body instanceof Uint8Array)) {
    const stream = new SettlingStream(call, outcome)
    const drainWhenAbandoned = outcome.body.drainWhenAbandoned === true
    return { ...outcome, body: { drainWhenAbandoned, [Symbol.asyncIterator]: () => stream.flow() } }
  }
  return call[settle](settlementOf(outcome, call.sent)).then(() => outcome, failureOf)
}

function settlementOf(outcome: Outcome, sent: Sent): Settlement {
  if (outcome.kind !== 'completed') {
    const { code } = outcome
    return { outcome, status: statusOf(code), sent, bytes: 0, digest: null, error: code }
  }
  const body = outcome.body
  const whole = body instanceof Uint8Array
  return {
    outcome,
    status: outcome.status,
    sent,
    bytes: whole ? body.byteLength : 0,
    digest: outcome.digest === undefined && whole ? sha256Hex(body) : (outcome.digest ?? null),
    error: outcome.error ?? null,
  }
}

/** The failure that replaces the response of a call that did not settle. */
function failureOf(cause: unknown): Failed {
  if (isRefusal(cause)) return failed(cause.code, cause.message, { cause: cause.cause })
  return failed('INTERNAL', 'The gateway failed after the call; the response is withheld.', { cause })
}

class SettlingStream {
  #call: CallControl
  #outcome: Completed
  #bytes = 0
  #isSettled = false

  constructor(call: CallControl, outcome: Completed) {
    this.#call = call
    this.#outcome = outcome
  }

  async *flow(): AsyncGenerator<ResponseChunk> {
    const { body, digest, error } = this.#outcome
    if (!isStream(body)) return
    const hash = digest === undefined ? createHash('sha256') : undefined
    try {
      for await (const chunk of body) {
        if (!(chunk.bytes instanceof Uint8Array))
          throw new Refusal('INTERNAL', 'A chunk of the response has no bytes.')
        const refusal = this.#call.refusalByFindings()
        if (refusal !== undefined) {
          yield await this.#refused(chunk, refusal)
          return
        }
        this.#bytes += chunk.bytes.byteLength
        hash?.update(chunk.bytes)
        if (chunk.response?.call !== undefined) {
          yield await settledOther(chunk.response.call, chunk.bytes, chunk.response)
        } else if (chunk.response !== undefined && !this.#isSettled) {
          const failure = await this.#settle(chunk.response.digest, chunk.response.error ?? error ?? null)
          yield failure === undefined ? chunk : { bytes: chunk.response.instead(failure) }
        } else {
          yield chunk
        }
      }
      if (!this.#isSettled) {
        const refusal = this.#call.refusalByFindings()
        if (refusal !== undefined) throw new Refusal(refusal.code, refusal.message)
        const failure = await this.#settle(hash?.digest('hex') ?? digest ?? null, error ?? null)
        // The head was sent already: the body must not end as if it were complete.
        if (failure !== undefined) throw new Refusal(failure.code, failure.message, { cause: failure.cause })
      }
    } catch (error) {
      if (!this.#isSettled)
        await this.#settle(null, codeOf(error) ?? this.#codeOfAbort() ?? 'UPSTREAM_UNREACHABLE')
      throw error
    } finally {
      // A call that is not settled here has lost its caller before the end of the response.
      if (!this.#isSettled) await this.#settle(null, this.#codeOfAbort() ?? 'CANCELLED')
    }
  }

  /** An error message in place of the response if the protocol has one; else the body must not look complete. */
  async #refused({ response }: ResponseChunk, { code, message }: Denied | Failed): Promise<ResponseChunk> {
    if (response === undefined) throw new Refusal(code, message)
    if (response.call !== undefined) {
      const bytes = response.instead(failed(code, message))
      return settledOther(response.call, bytes, { ...response, digest: null, error: code })
    }
    const failure = await this.#settle(null, code)
    return { bytes: response.instead(failure ?? failed(code, message)) }
  }

  #settle(digest: string | null, error: ErrorCode | null): Promise<Failed | undefined> {
    this.#isSettled = true
    const { status } = this.#outcome
    const { sent } = this.#call
    return this.#call[settle]({
      outcome: this.#outcome,
      status,
      sent,
      bytes: this.#bytes,
      digest,
      error,
    }).then(() => undefined, failureOf)
  }

  #codeOfAbort(): ErrorCode | undefined {
    return codeOf(this.#call.reason)
  }
}

/** The response to another call than the stream's. */
function settledOther(
  call: NonNullable<NonNullable<ResponseChunk['response']>['call']>,
  bytes: Uint8Array,
  response: NonNullable<ResponseChunk['response']>,
): Promise<ResponseChunk> {
  const { digest, error = null } = response
  const outcome: Completed = { kind: 'completed', status: 200, headers: {}, body: bytes }
  const settlement = { outcome, status: 200, sent: 'yes', bytes: bytes.byteLength, digest, error } as const
  if (!isCallControl(call)) throw new Error('the response is for a call that no gateway made')
  return call[settle](settlement).then(
    () => ({ bytes }),
    (cause: unknown) => ({ bytes: response.instead(failureOf(cause)) }),
  )
}

function codeOf(error: unknown): ErrorCode | undefined {
  return isRefusal(error) ? error.code : undefined
}
