// How a refusal is worded: exactly what is wrong with the token, and never the token.
import { Refusal } from '@svc/core'
import { errors } from 'jose'

export function unauthenticated(message: string): Refusal {
  return new Refusal('UNAUTHENTICATED', message)
}

/** For something a caller or an issuer wrote: bounded, and on one line whatever it holds. */
export function quote(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}

/** What to say of a token that jose refused; undefined where it is not the token's fault. */
export function refusalOf(
  fault: unknown,
  expected: { readonly issuer: string; readonly audience: string; readonly kid: string | undefined },
): Refusal | undefined {
  if (fault instanceof errors.JWTExpired) {
    return unauthenticated(`The token expired at ${instant(fault.payload['exp'])}.`)
  }
  if (fault instanceof errors.JWTClaimValidationFailed) {
    return unauthenticated(claimMessage(fault, expected.issuer, expected.audience))
  }
  if (fault instanceof errors.JWSSignatureVerificationFailed) {
    const named = expected.kid === undefined ? "the issuer's key" : `the issuer's key ${quote(expected.kid)}`
    return unauthenticated(`The token's signature does not verify against ${named}.`)
  }
  if (fault instanceof errors.JOSEError) return unauthenticated(`The token is malformed: ${fault.message}.`)
  return undefined
}

function claimMessage(fault: errors.JWTClaimValidationFailed, issuer: string, audience: string): string {
  const { claim, reason, payload } = fault
  if (reason === 'missing') return `The token has no ${quote(claim)} claim.`
  if (reason === 'invalid') return `The token's ${quote(claim)} claim is not a number.`
  switch (claim) {
    case 'nbf':
      return `The token is not valid before ${instant(payload['nbf'])}.`
    case 'iss':
      return `The token was issued by ${quote(payload['iss'])}; this gateway accepts ${quote(issuer)}.`
    case 'aud':
      return `The token is for the audience ${quote(payload['aud'])}; this gateway is ${quote(audience)}.`
    default:
      return `The token's ${quote(claim)} claim is not acceptable.`
  }
}

/** A NumericDate (RFC 7519 §2) in ISO 8601, as far as it can be written so. */
function instant(seconds: unknown): string {
  const date = new Date(typeof seconds === 'number' ? seconds * 1000 : Number.NaN)
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString()
}

/** RFC 6750 §3. A call that came without a token is told the scheme and nothing else (§3.1). */
export function challenge(message?: string): string {
  if (message === undefined) return 'Bearer realm="svc"'
  // What §3 lets stand inside the quotes.
  const description = message.replaceAll('"', "'").replace(/[^\x20-\x5b\x5d-\x7e]/g, '?')
  return `Bearer realm="svc", error="invalid_token", error_description="${description}"`
}
