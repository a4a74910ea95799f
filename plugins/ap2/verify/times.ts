// The time claims of a token and of the mandate in it (RFC 7519 §4.1), by the gateway's clock.
import type { JsonObject } from '@svc/core/json'
import { MandateFault, malformed } from '../mandate/fault.js'

/** Seconds since the epoch, and of tolerated difference. */
export interface Now {
  readonly sec: number
  readonly skewSec: number
}

/** The earliest expiry among the claims, in seconds since the epoch. */
export function checkTimes(claims: readonly JsonObject[], { sec, skewSec }: Now): number {
  let earliest = Number.POSITIVE_INFINITY
  for (const set of claims) {
    const notBefore = Math.max(timeOf(set, 'iat') ?? 0, timeOf(set, 'nbf') ?? 0)
    if (notBefore > sec + skewSec) {
      throw new MandateFault('ap2_not_yet_valid', 'the mandate is valid from a later time on')
    }
    earliest = Math.min(earliest, timeOf(set, 'exp') ?? earliest)
  }
  if (earliest + skewSec <= sec) throw new MandateFault('ap2_expired', 'the mandate has expired')
  // Without an end, its single use would have to be remembered for ever.
  if (earliest === Number.POSITIVE_INFINITY) throw malformed('the mandate has no "exp"')
  return earliest
}

function timeOf(claims: JsonObject, name: 'iat' | 'nbf' | 'exp'): number | undefined {
  const { [name]: value } = claims
  if (value === undefined || (typeof value === 'number' && value >= 0)) return value
  throw malformed(`"${name}" is not a time`)
}
