// A limit in words, for callers and operators.
import type { Limit } from '@svc/core'
import { bucketSize } from './store/token-bucket.js'

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
