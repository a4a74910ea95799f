// What one call used of its limits, and the response fields that report it: x-rate-*, x-quota-* and the RateLimit
// fields of draft-ietf-httpapi-ratelimit-headers-10 (structured fields, RFC 9651).
import type { AnswerHeaders, Sent } from '@svc/core'
import { type DayPart, type LimitPart, MAX_INTEGER, type RatePart } from './limit-parts.js'

interface Used {
  readonly part: LimitPart
  readonly remaining: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Counted, and refunded when the call is not sent. */
  readonly refundable: boolean
}

export class Usage {
  #used: Used[] = []

  addRate(part: RatePart, { tokens, resetAt }: { tokens: number; resetAt: number }): void {
    this.#used.push({ part, remaining: within(Math.floor(tokens)), resetAt, refundable: false })
  }

  addDay(part: DayPart, answer: { count: number; resetAt: number }, refundable: boolean): void {
    const left = part.callsPerDay - answer.count
    this.#used.push({
      part,
      remaining: within(left),
      resetAt: answer.resetAt,
      refundable: refundable && left >= 0,
    })
  }

  /**
   * Adds the fields to `headers`. `now` in milliseconds since the epoch. A call that is not sent is refunded, so it is not
   * reported as used.
   */
  addTo(headers: AnswerHeaders, now: number, sent: Sent): void {
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
export function secondsUntil(instant: number, now: number): number {
  return Math.ceil((instant - now) / 1000)
}

// All calls of a day share its end, so the text is formatted once a day.
let lastFormatted = { instant: Number.NaN, text: '' }

function isoTime(instant: number): string {
  if (instant !== lastFormatted.instant) lastFormatted = { instant, text: new Date(instant).toISOString() }
  return lastFormatted.text
}
