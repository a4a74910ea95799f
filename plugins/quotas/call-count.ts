// Counts one call against its limits, refuses it at the first that is used up, and reports the use in response fields:
// x-rate-*, x-quota-* and the RateLimit fields of draft-ietf-httpapi-ratelimit-headers-10 (structured fields, RFC
// 9651).
import {
  after,
  type Call,
  type Clock,
  type Denied,
  denied,
  type Hold,
  type MaybePromise,
  type Outcome,
  type ResponseHeaders,
  type Sent,
} from '@svc/core'
import type { Counted, LimitCounter } from './limit-counter.js'
import { describeLimit, type LimitPart, MAX_INTEGER } from './limit-parts.js'
import { isRefused } from './store/count-one-by-one.js'
import { instantOf } from './store/token-bucket.js'

const none: readonly never[] = []

/** The counts of one call; as a hold it refunds those of the day if the call is not sent. */
export class CallCount implements Hold {
  #call: Call
  #tenant: string
  #clock: Clock
  #parts: readonly LimitPart[] = none
  #counted: Counted = { uses: none, refund: undefined }

  constructor(call: Call, tenant: string, clock: Clock) {
    this.#call = call
    this.#tenant = tenant
    this.#clock = clock
  }

  /** Throws or rejects if the store is down and the call must be refused. */
  take(counter: LimitCounter, parts: readonly LimitPart[]): MaybePromise<Denied | undefined> {
    return after(counter.count(this.#tenant, parts), (counted) => this.#judge(parts, counted))
  }

  #judge(parts: readonly LimitPart[], counted: Counted | undefined): Denied | undefined {
    if (counted === undefined) return undefined
    this.#parts = parts
    this.#counted = counted
    const { uses, refund } = counted
    // The pipeline releases it when nothing is sent, even if the last limit refuses.
    if (refund !== undefined) this.#call.hold(this)
    const last = uses.length - 1
    const [part, use] = [parts[last], uses[last]]
    if (part === undefined || use === undefined || !isRefused(part, use)) return undefined
    return this.#refuse(part, instantOf(use.resetAt))
  }

  /** Whether the count is refunded if the call is not sent. */
  #isRefundable(index: number): boolean {
    const { uses, refund } = this.#counted
    const [part, use] = [this.#parts[index], uses[index]]
    if (part === undefined || use === undefined || refund === undefined) return false
    return part.unit === 'day' && !isRefused(part, use)
  }

  #refuse({ unit, limit }: LimitPart, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#clock.now()))
    const { key, level, ratePerSec, burst, callsPerDay } = limit
    const usedUp =
      unit === 'rate'
        ? `The rate is used up: ${describeLimit({ level, ratePerSec, burst })}`
        : `Today's calls are used up: ${describeLimit({ level, callsPerDay })}`
    const code = unit === 'rate' ? 'RATE_LIMITED' : 'QUOTA_EXCEEDED'
    return denied(code, `${usedUp}. Try again in ${seconds} s.`, {
      denial: { level, type: 'quotas', limit: key },
      headers: { 'retry-after': String(seconds) },
    })
  }

  /** The commit does nothing, because the count was stored when it was taken. */
  commit(): undefined {
    return undefined
  }

  async release(): Promise<void> {
    const { uses, refund } = this.#counted
    const refunds = uses.map(async ({ resetAt }, i) => {
      const key = this.#parts[i]?.tool
      if (key !== undefined && this.#isRefundable(i))
        await refund?.(this.#tenant, key, instantOf(resetAt) - 1)
    })
    const errors = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    if (errors.length > 0) {
      throw new AggregateError(
        errors.map(({ reason }) => reason),
        'daily counts could not be refunded',
      )
    }
  }

  /** The outcome with fields about the use of the limits. */
  reported(outcome: Outcome): Outcome {
    // If properties follow a spread, V8 gives the object a new hidden class each time.
    const headers: ResponseHeaders = Object.assign({}, outcome.headers)
    this.#addTo(headers, this.#clock.now(), this.#call.sent)
    return { ...outcome, headers }
  }

  /** `now` in milliseconds since the epoch. A call that is not sent is refunded, so it is not reported as used. */
  #addTo(headers: ResponseHeaders, now: number, sent: Sent): void {
    let tightestRate = Number.POSITIVE_INFINITY
    let tightestDay = Number.POSITIVE_INFINITY
    let dayEnds = 0
    let policy = ''
    let state = ''
    const { uses } = this.#counted
    for (let i = 0; i < uses.length; i++) {
      const [part, use] = [this.#parts[i], uses[i]]
      if (part === undefined || use === undefined) continue
      const resetAt = instantOf(use.resetAt)
      const remaining = within(part.unit === 'rate' ? Math.floor(use.value) : part.callsPerDay - use.value)
      const left = sent === 'no' && this.#isRefundable(i) ? remaining + 1 : remaining
      const comma = policy === '' ? '' : ', '
      policy += comma + part.policy
      state += `${comma}"${part.name}";r=${left};t=${Math.max(0, secondsUntil(resetAt, now))}`
      if (part.unit === 'rate') tightestRate = Math.min(tightestRate, left)
      else if (left < tightestDay) {
        tightestDay = left
        dayEnds = resetAt
      }
    }
    if (tightestRate < Number.POSITIVE_INFINITY) headers['x-rate-remaining'] = `${tightestRate}`
    if (tightestDay < Number.POSITIVE_INFINITY) {
      headers['x-quota-remaining'] = `${tightestDay}`
      headers['x-quota-reset-at'] = isoTime(dayEnds)
    }
    if (policy !== '') {
      headers['ratelimit-policy'] = policy
      headers['ratelimit'] = state
    }
  }
}

function within(remaining: number): number {
  return Math.min(MAX_INTEGER, Math.max(0, remaining))
}

/** Whole seconds, rounded up, so that a caller who waits for them waits long enough. */
function secondsUntil(instant: number, now: number): number {
  return Math.ceil((instant - now) / 1000)
}

// All calls of a day share its end, so the text is formatted once a day.
let lastFormatted = { instant: Number.NaN, text: '' }

function isoTime(instant: number): string {
  if (instant !== lastFormatted.instant) lastFormatted = { instant, text: new Date(instant).toISOString() }
  return lastFormatted.text
}
