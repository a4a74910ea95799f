// What one call used up of its limits, and the response fields that tell it: x-rate-*, x-quota-* and the RateLimit
// fields of draft-ietf-httpapi-ratelimit-headers-10 (structured fields, RFC 9651).
import type { AnswerHeaders, Limit, Sent } from '@svc/core'

const DAY_SECONDS = 86_400

/** The greatest integer of a structured field (RFC 9651 §3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

interface Used {
  readonly unit: 'rate' | 'day'
  readonly name: string
  readonly quota: number
  /** Seconds in which the quota is given. */
  readonly window: number
  readonly remaining: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Counted, and given back when the call is not sent. */
  readonly refundable: boolean
}

export class Usage {
  #used: Used[] = []

  addBucket(limit: Limit, rate: number, size: number, answer: { tokens: number; resetAt: number }): void {
    this.#used.push({
      unit: 'rate',
      name: this.#nameOf(limit, 'rate'),
      quota: Math.min(MAX_INTEGER, Math.floor(size)),
      window: Math.min(MAX_INTEGER, Math.max(1, Math.ceil(size / rate))),
      remaining: Math.min(MAX_INTEGER, Math.max(0, Math.floor(answer.tokens))),
      resetAt: answer.resetAt,
      refundable: false,
    })
  }

  addDay(
    limit: Limit,
    callsPerDay: number,
    answer: { count: number; resetAt: number },
    refundable: boolean,
  ): void {
    this.#used.push({
      unit: 'day',
      name: this.#nameOf(limit, 'day'),
      quota: Math.min(MAX_INTEGER, Math.floor(callsPerDay)),
      window: DAY_SECONDS,
      remaining: Math.min(MAX_INTEGER, Math.max(0, callsPerDay - answer.count)),
      resetAt: answer.resetAt,
      refundable: refundable && answer.count <= callsPerDay,
    })
  }

  /** `now` in milliseconds since the epoch; what is not sent is given back, so it is not told as used. */
  headers(now: number, sent: Sent): AnswerHeaders {
    const left = (used: Used) => used.remaining + (sent === 'no' && used.refundable ? 1 : 0)
    const headers: AnswerHeaders = {}
    const rate = tightest(this.#used, 'rate', left)
    if (rate !== undefined) headers['x-rate-remaining'] = String(left(rate))
    const day = tightest(this.#used, 'day', left)
    if (day !== undefined) {
      headers['x-quota-remaining'] = String(left(day))
      headers['x-quota-reset-at'] = new Date(day.resetAt).toISOString()
    }
    if (this.#used.length === 0) return headers
    headers['ratelimit-policy'] = this.#used.map((u) => `"${u.name}";q=${u.quota};w=${u.window}`).join(', ')
    headers['ratelimit'] = this.#used
      .map((u) => `"${u.name}";r=${left(u)};t=${Math.max(0, secondsUntil(u.resetAt, now))}`)
      .join(', ')
    return headers
  }

  /** Names of policies are told apart where a caller has several limits of one kind, such as one for each role. */
  #nameOf({ level }: Limit, unit: Used['unit']): string {
    const name = `${level.replace(/[^a-z0-9_-]/gi, '-')}-${unit}`
    const others = this.#used.filter((used) => used.name === name || used.name.startsWith(`${name}-`)).length
    return others === 0 ? name : `${name}-${others + 1}`
  }
}

/** Whole seconds, rounded up, so that whoever waits them waits long enough. */
export function secondsUntil(instant: number, now: number): number {
  return Math.ceil((instant - now) / 1000)
}

function tightest(all: readonly Used[], unit: Used['unit'], left: (used: Used) => number): Used | undefined {
  let best: Used | undefined
  for (const used of all) {
    if (used.unit === unit && (best === undefined || left(used) < left(best))) best = used
  }
  return best
}
