// The clock of the system, in production.
import type { Clock } from './tokens.js'

/**
 * `monotonic` can be compared between processes of a host until it boots again: `hrtime` counts from an instant that they share,
 * `performance.now` from the start of each.
 */
export const hostClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Number(process.hrtime.bigint()) / 1e6,
}
