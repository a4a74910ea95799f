// Counts one call against its limits, refuses it at the first that is used up, and reports the use in response fields:
// x-rate-*, x-quota-* and the RateLimit fields of draft-ietf-httpapi-ratelimit-headers-10 (structured fields, RFC
// 9651). The parts of limits, a rate and a number of calls per day, are counted separately and reported under separate names.
import {
  type Call,
  type Clock,
  type Denied,
  denied,
  type Hold,
  isPending,
  type Limit,
  type MaybePromise,
  type Outcome,
  type ResponseHeaders,
} from '@svc/core'
import type { Counted, LimitCounter } from './limit-counter.js'
import { bucketSize, dayLimit, isDaily, type QuotaLimit, rateLimit } from './store/quota-store.js'

const DAY_SECONDS = 86_400

/** The greatest integer of a structured field (RFC 9651 §3.3.1). */
const MAX_INTEGER = 999_999_999_999_999

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
    const counted = counter.count(this.#tenant, parts)
    return isPending(counted)
      ? counted.then((known) => this.#judge(parts, known))
      : this.#judge(parts, counted)
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

  /** The outcome with fields about the use of the limits. A call that is not sent is refunded, so it is not reported as used. */
  reported(outcome: Outcome): Outcome {
    // If properties follow a spread, V8 gives the object a new hidden class each time.
    const headers: ResponseHeaders = Object.assign({}, outcome.headers)
    const now = this.#clock.now()
    let tightestRate = Number.POSITIVE_INFINITY
    let tightestDay = Number.POSITIVE_INFINITY
    let dayEnds = 0
    let policy = ''
    let state = ''
    const { uses = [], isCounted = false, isRefundable = false } = this.#counted?.call ?? {}
    const isRefunded = this.#call.sent === 'no' && isCounted && isRefundable
    for (let i = 0; i < uses.length; i++) {
      const [part, use] = [this.#parts[i], uses[i]]
      if (part === undefined || use === undefined) continue
      const { resetAt } = use
      const remaining = Math.min(MAX_INTEGER, Math.max(0, Math.floor(use.left)))
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
    return { ...outcome, headers }
  }
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

interface LimitPart extends QuotaLimit {
  readonly limit: Limit
  readonly name: string
  /** The item of the part in the field RateLimit-Policy. */
  readonly policy: string
}

/** Entitlements give the calls of a caller and a tool the same list. */
const known = new WeakMap<readonly Limit[], readonly LimitPart[]>()

/** The parts in the order of counting: first all rates, as a call that a rate refuses must not count for the day. */
export function limitPartsOf(limits: readonly Limit[]): readonly LimitPart[] {
  let parts = known.get(limits)
  if (parts === undefined) {
    parts = split(limits)
    known.set(limits, parts)
  }
  return parts
}

function split(limits: readonly Limit[]): readonly LimitPart[] {
  const parts: LimitPart[] = []
  for (const limit of limits) {
    if (limit.ratePerSec === undefined) continue
    const counted = rateLimit(limit, limit.ratePerSec)
    const name = nameOf(limit, 'rate', parts)
    const policy = item(name, counted.max, Math.max(1, Math.ceil(counted.max / limit.ratePerSec)))
    parts.push({ ...counted, limit, name, policy })
  }
  for (const limit of limits) {
    if (limit.callsPerDay === undefined) continue
    const name = nameOf(limit, 'day', parts)
    const policy = item(name, limit.callsPerDay, DAY_SECONDS)
    parts.push({ ...dayLimit(limit, limit.callsPerDay), limit, name, policy })
  }
  return parts
}

function item(name: string, quota: number, seconds: number): string {
  return `"${name}";q=${Math.min(MAX_INTEGER, Math.floor(quota))};w=${Math.min(MAX_INTEGER, seconds)}`
}

/** The names of limits are numbered if a caller has several of one kind, such as one for each role. */
function nameOf({ level }: Limit, unit: 'rate' | 'day', before: readonly LimitPart[]): string {
  const name = `${level.replace(/[^a-z0-9_-]/gi, '-')}-${unit}`
  const others = before.filter((part) => part.name === name || part.name.startsWith(`${name}-`)).length
  return others === 0 ? name : `${name}-${others + 1}`
}

/** A limit, or the part of it that is used up. */
type DescribedLimit = Pick<Limit, 'level'> & { [K in keyof Limit]?: Limit[K] | undefined }

export function describeLimit({ level, callsPerDay, ratePerSec, burst }: DescribedLimit): string {
  const parts: string[] = []
  if (ratePerSec !== undefined) {
    parts.push(`${ratePerSec} calls per second, ${bucketSize(ratePerSec, burst)} at once`)
  }
  if (callsPerDay !== undefined) parts.push(`${callsPerDay} calls per day`)
  return `limit of the ${level}: ${parts.join('; ')}`
}
