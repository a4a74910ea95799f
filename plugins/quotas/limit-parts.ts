// The parts of limits: a rate and a number of calls per day are counted separately, and reported under separate names.
import type { Limit } from '@svc/core'
import { bucketSize, dayLimit, type QuotaLimit, rateLimit } from './store/quota-store.js'

const DAY_SECONDS = 86_400

/** The greatest integer of a structured field (RFC 9651 §3.3.1). */
export const MAX_INTEGER = 999_999_999_999_999

export interface LimitPart extends QuotaLimit {
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
