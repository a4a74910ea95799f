// What one call used of its limits, and the response fields that report it: x-rate-*, x-quota-* and the RateLimit
// fields of draft-ietf-httpapi-ratelimit-headers-10 (structured fields, RFC 9651).
import type { AnswerHeaders, Limit, Sent } from '@svc/core'

const DAY_SECONDS = 86_400

/** The greatest integer of a structured field (RFC 9651 §3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

interface Used {
  readonly unit: 'rate' | 'day'
  readonly name: string
  readonly quota: number
  /** Seconds that the quota is for. */
  readonly window: number
  readonly remaining: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Counted, and refunded when the call is not sent. */
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

  /** `now` in milliseconds since the epoch. A call that is not sent is refunded, so it is not reported as used. */
  headers(now: number, sent: Sent): AnswerHeaders {
    const headers: AnswerHeaders = {}
    let tightestRate = Number.POSITIVE_INFINITY
    let tightestDay = Number.POSITIVE_INFINITY
    let dayEnds = 0
    let policy = ''
    let state = ''
    for (const { unit, name, quota, window, remaining, resetAt, refundable } of this.#used) {
      const left = sent === 'no' && refundable ? remaining + 1 : remaining
      const comma = policy === '' ? '' : ', '
      policy += `${comma}"${name}";q=${quota};w=${window}`
      state += `${comma}"${name}";r=${left};t=${Math.max(0, secondsUntil(resetAt, now))}`
      if (unit === 'rate') tightestRate = Math.min(tightestRate, left)
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
    return headers
  }

  /** Numbered where a caller has several limits of one kind, such as one for each role. */
  #nameOf({ level }: Limit, unit: Used['unit']): string {
    const name = `${level.replace(/[^a-z0-9_-]/gi, '-')}-${unit}`
    if (this.#used.length === 0) return name
    const others = this.#used.filter((used) => used.name === name || used.name.startsWith(`${name}-`)).length
    return others === 0 ? name : `${name}-${others + 1}`
  }
}

/** Whole seconds, rounded up, so that a caller who waits for them waits long enough. */
export function secondsUntil(instant: number, now: number): number {
  return Math.ceil((instant - now) / 1000)
}

// All calls of a day share its end, so the text is formatted once a day.
let lastFormatted = { instant: Number.NaN, text: '' }

function isoTime(instant: number): string {
  if (instant !== lastFormatted.instant) lastFormatted = { instant, text: new Date(instant).toISOString() }
  return lastFormatted.text
}
