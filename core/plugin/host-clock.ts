// The clock of the system, in production.
import type { Clock } from './tokens.js'

// Both read the same clock of the kernel; `hrtime` counts from an instant that all processes of the host share.
const sinceBoot = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/** `monotonic` can be compared between processes of a host until it boots again. */
export const hostClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() + sinceBoot,
}
