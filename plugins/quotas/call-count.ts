// Counts one call against its limits; the first that is used up refuses it.
import {
  after,
  type Call,
  type Clock,
  type Denied,
  denied,
  firstResult,
  type Hold,
  type Limit,
  type MaybePromise,
} from '@svc/core'
import { describeLimit } from './describe-limit.js'
import type { LimitCounter } from './limit-counter.js'
import type { DayPart, LimitPart, RatePart } from './limit-parts.js'
import { secondsUntil, Usage } from './usage.js'

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

  /** Throws or rejects when the store is down and the call must be refused. */
  take(parts: readonly LimitPart[]): MaybePromise<Denied | undefined> {
    return firstResult(parts, (part) => (part.unit === 'rate' ? this.#takeToken(part) : this.#countDay(part)))
  }

  #takeToken(part: RatePart): MaybePromise<Denied | undefined> {
    const { counter, tenant } = this.#parts
    const { limit, ratePerSec } = part
    return after(counter.takeToken(tenant, limit.key, ratePerSec, limit.burst), (answer) => {
      if (answer === undefined) return undefined
      this.usage.addRate(part, answer)
      return answer.tokens < 0 ? this.#refuse('RATE_LIMITED', limit, answer.resetAt) : undefined
    })
  }

  #countDay(part: DayPart): MaybePromise<Denied | undefined> {
    const { counter, tenant } = this.#parts
    const { limit, callsPerDay } = part
    return after(counter.incrDaily(tenant, limit.key, callsPerDay), (answer) => {
      if (answer === undefined) return undefined
      const { count, resetAt, refund } = answer
      this.usage.addDay(part, answer, refund !== undefined)
      if (count > callsPerDay) return this.#refuse('QUOTA_EXCEEDED', limit, resetAt)
      if (refund !== undefined) this.#refundUnlessSent(refund)
      return undefined
    })
  }

  /** The pipeline releases it when nothing is sent, also where the next limit refuses. */
  #refundUnlessSent(refund: () => MaybePromise<void>): void {
    if (this.#hold === undefined) {
      this.#hold = new DailyHold()
      this.#call.hold(this.#hold)
    }
    this.#hold.add(refund)
  }

  #refuse(code: 'RATE_LIMITED' | 'QUOTA_EXCEEDED', limit: Limit, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#parts.clock.now()))
    const { level, ratePerSec, burst, callsPerDay } = limit
    const usedUp =
      code === 'RATE_LIMITED'
        ? `The rate is used up: ${describeLimit({ level, ratePerSec, burst })}`
        : `Today's calls are used up: ${describeLimit({ level, callsPerDay })}`
    return denied(code, `${usedUp}. Try again in ${seconds} s.`, {
      denial: { level, type: 'quotas' },
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

  /** Nothing to do: the count was stored when it was taken. */
  commit(): undefined {
    return undefined
  }

  async release(): Promise<void> {
    const refunds = this.#refunds.splice(0).map(async (refund) => refund())
    const faults = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    if (faults.length > 0) {
      throw new AggregateError(
        faults.map(({ reason }) => reason),
        'daily counts could not be refunded',
      )
    }
  }
}
