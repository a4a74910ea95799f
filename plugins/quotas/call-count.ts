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
  type ResponseHeaders,
  type Sent,
} from '@svc/core'
import type { Counted, LimitCounter } from './limit-counter.js'
import { describeLimit, type LimitPart, MAX_INTEGER } from './limit-parts.js'
import { isRefused } from './store/count-one-by-one.js'

interface CallCountParts {
  readonly counter: LimitCounter
  readonly tenant: string
  readonly clock: Clock
}

export class CallCount {
  readonly usage = new Usage()
  #call: Call
  #parts: CallCountParts
  #hold: DailyHold | undefined

  constructor(call: Call, parts: CallCountParts) {
    this.#call = call
    this.#parts = parts
  }

  /** Throws or rejects if the store is down and the call must be refused. */
  take(parts: readonly LimitPart[]): MaybePromise<Denied | undefined> {
    const { counter, tenant } = this.#parts
    return after(counter.count(tenant, parts), (counted = []) => {
      for (const [i, part] of parts.entries()) {
        const use = counted[i]
        const refused = use && this.#judge(part, use)
        if (refused !== undefined) return refused
      }
      return undefined
    })
  }

  #judge(part: LimitPart, use: Counted): Denied | undefined {
    const { refund, resetAt } = use
    this.usage.add(part, use)
    if (isRefused(part, use)) return this.#refuse(part, resetAt)
    if (refund !== undefined) this.#refundUnlessSent(refund)
    return undefined
  }

  /** The pipeline releases it when nothing is sent, even if the next limit refuses. */
  #refundUnlessSent(refund: () => MaybePromise<void>): void {
    if (this.#hold === undefined) {
      this.#hold = new DailyHold()
      this.#call.hold(this.#hold)
    }
    this.#hold.add(refund)
  }

  #refuse({ unit, limit }: LimitPart, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#parts.clock.now()))
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
}

/** The daily counts taken for one call, refunded if it is not sent. */
class DailyHold implements Hold {
  #refunds: (() => MaybePromise<void>)[] = []

  add(refund: () => MaybePromise<void>): void {
    this.#refunds.push(refund)
  }

  /** The commit does nothing, because the count was stored when it was taken. */
  commit(): undefined {
    return undefined
  }

  async release(): Promise<void> {
    const refunds = this.#refunds.splice(0).map(async (refund) => refund())
    const errors = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    if (errors.length > 0) {
      throw new AggregateError(
        errors.map(({ reason }) => reason),
        'daily counts could not be refunded',
      )
    }
  }
}

interface Used {
  readonly part: LimitPart
  readonly remaining: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Counts that are refunded if the call is not sent. */
  readonly refundable: boolean
}

class Usage {
  #used: Used[] = []

  add(part: LimitPart, { value, resetAt, refund }: Counted): void {
    const left = part.unit === 'rate' ? Math.floor(value) : part.callsPerDay - value
    this.#used.push({ part, remaining: within(left), resetAt, refundable: refund !== undefined && left >= 0 })
  }

  /**
   * Adds the fields to `headers`. `now` in milliseconds since the epoch. A call that is not sent is refunded, so it is not
   * reported as used.
   */
  addTo(headers: ResponseHeaders, now: number, sent: Sent): void {
    let tightestRate = Number.POSITIVE_INFINITY
    let tightestDay = Number.POSITIVE_INFINITY
    let dayEnds = 0
    let policy = ''
    let state = ''
    for (const { part, remaining, resetAt, refundable } of this.#used) {
      const left = sent === 'no' && refundable ? remaining + 1 : remaining
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
