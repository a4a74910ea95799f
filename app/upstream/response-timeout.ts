// How long a server may take until its response begins, if the policy does not say so.
import { type Call, responseTimeLeft, verdict } from '@svc/core'

/** In observe mode nothing fails that would have worked without the gateway. */
const OBSERVED_MS = 3_600_000
const ENFORCED_MS = 300_000
/** The longest time of a timer. */
const NO_LIMIT = 2_147_483_647

/** In milliseconds. A call that `security.limits.max_duration_ms` ends has no other limit. */
export function responseTimeoutOf(call: Call): number {
  if (call.get(responseTimeLeft)?.() !== undefined) return NO_LIMIT
  return call.get(verdict)?.mode === 'observe' ? OBSERVED_MS : ENFORCED_MS
}

/** The message of a call that failed because of the limit, with the key that changes it. */
export function noResponseWithin(ms: number): string {
  return `The upstream did not respond within ${ms / 1000} s; server.upstreamTimeoutMs raises that limit.`
}
