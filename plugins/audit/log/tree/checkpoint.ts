// The signed text of a checkpoint (c2sp.org/tlog-checkpoint): origin, size and root, no extension lines. The origin is
// also the name of the key.

import type { Digest } from '../merkle/tree-hash.js'
import { digestFromBase64, digestToBase64, isOrigin } from './journal-codec.js'

const COUNT = /^(?:0|[1-9]\d{0,15})$/

/** The tree over the first `size` leaves of the log `origin`. */
export interface Head {
  readonly origin: string
  readonly size: number
  readonly root: Digest
}

export function checkpointText({ origin, size, root }: Head): string {
  return `${origin}\n${size}\n${digestToBase64(root)}\n`
}

/** Undefined for any other text, and for one with extension lines. */
export function parseCheckpoint(text: string): Head | undefined {
  const [origin, size, root, end, ...more] = text.split('\n')
  if (end !== '' || more.length > 0 || size === undefined || root === undefined) return undefined
  const digest = digestFromBase64(root)
  const count = Number(size)
  if (!isOrigin(origin) || !COUNT.test(size) || !Number.isSafeInteger(count) || digest === undefined) {
    return undefined
  }
  return { origin, size: count, root: digest }
}

/** The origin of a log without a configured one. */
export function defaultOrigin(logId: string): string {
  return `svc-audit.invalid/${logId}`
}
