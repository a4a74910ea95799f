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
import { isDaily } from './store/quota-store.js'

/** The counts of one call; as a hold it refunds those of the day if the call is not sent. */
export class CallCount implements Hold {
  #call: Call
  #tenant: string
  #clock: Clock
  #parts: readonly LimitPart[] = []
  #counted: Counted | undefined
  #counter: LimitCounter | undefined

  constructor(call: Call, tenant: string, clock: Clock) {
    this.#call = call
    this.#tenant = tenant
    this.#clock = clock
  }

  /** Throws or rejects if the store is down and the call must be refused. */
  take(counter: LimitCounter, parts: readonly LimitPart[]): MaybePromise<Denied | undefined> {
    this.#counter = counter
    return after(counter.count(this.#tenant, parts), (counted) => this.#judge(parts, counted))
  }

  #judge(parts: readonly LimitPart[], counted: Counted | undefined): Denied | undefined {
    if (counted === undefined) return undefined
    this.#parts = parts
    this.#counted = counted
    const { isCounted, uses, isRefundable } = counted.call
    if (isCounted) {
      if (isRefundable && parts.some(isDaily)) this.#call.hold(this)
      return undefined
    }
    const last = uses.length - 1
    const [part, use] = [parts[last], uses[last]]
    if (part === undefined || use === undefined)
      throw new TypeError('the store did not say which limit refuses')
    return this.#refuse(part, use.resetAt)
  }

  #refuse(part: LimitPart, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#clock.now()))
    const { key, level, ratePerSec, burst, callsPerDay } = part.limit
    const usedUp = isDaily(part)
      ? `Today's calls are used up: ${describeLimit({ level, callsPerDay })}`
      : `The rate is used up: ${describeLimit({ level, ratePerSec, burst })}`
    const code = isDaily(part) ? 'QUOTA_EXCEEDED' : 'RATE_LIMITED'
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
    if (this.#counted !== undefined) await this.#counter?.refund(this.#tenant, this.#parts, this.#counted)
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
    const { uses = [], isCounted = false, isRefundable = false } = this.#counted?.call ?? {}
    const isRefunded = sent === 'no' && isCounted && isRefundable
    for (let i = 0; i < uses.length; i++) {
      const [part, use] = [this.#parts[i], uses[i]]
      if (part === undefined || use === undefined) continue
      const { resetAt } = use
      const remaining = within(Math.floor(use.left))
      const left = isRefunded && isDaily(part) ? remaining + 1 : remaining
      const comma = policy === '' ? '' : ', '
      policy += comma + part.policy
      state += `${comma}"${part.name}";r=${left};t=${Math.max(0, secondsUntil(resetAt, now))}`
      if (!isDaily(part)) tightestRate = Math.min(tightestRate, left)
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
