// Compares the clock of this machine with that of a server.
import type { DoctorCheck } from './check.js'

/** Tokens and certificates tolerate a few seconds. */
const maxSkewMs = 3000

/** The time of a server by its response, in milliseconds since the epoch: at least `from`, before `to`. */
interface ServerTime {
  readonly from: number
  readonly to: number
}

/** By how much this clock is ahead of that of a server at least, in milliseconds; negative if it is behind. */
export function clockSkew(server: ServerTime, askedAt: number, respondedAt: number): number {
  const aheadMs = askedAt - server.to
  const behindMs = server.from - respondedAt
  if (aheadMs > 0) return aheadMs
  return behindMs > 0 ? -behindMs : 0
}

/** `subject` is how the message calls the server. */
export function describeSkew(subject: string, skewMs: number): string {
  const side = skewMs < 0 ? 'behind' : 'ahead of'
  return `the clock of this machine is ${Math.round(Math.abs(skewMs) / 1000)} s ${side} that of ${subject}`
}

/** The check for `svc doctor`; nothing if the clocks agree. */
export function checkSkew(subject: string, skewMs: number): DoctorCheck[] {
  if (Math.abs(skewMs) <= maxSkewMs) return []
  const hint = 'synchronise both clocks, by NTP for example'
  return [{ severity: 'warning', message: describeSkew(subject, skewMs), hint }]
}
