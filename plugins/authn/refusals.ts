// How a refusal is worded: exactly what is wrong with the token, and never the token.
import { Refusal } from '@svc/core'
import { errors } from 'jose'

export function unauthenticated(message: string): Refusal {
  return new Refusal('UNAUTHENTICATED', message)
}

/** Of a token that is the issuer's, for what it says: no new key and no passing of time makes it a good one. */
export class LastingRefusal extends Refusal {}

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

/** What a `WWW-Authenticate` header tells the caller's client. */
export interface Challenge {
  /** Absent where the call came without a token (RFC 6750 §3.1). */
  readonly error?: 'invalid_token' | 'insufficient_scope'
  readonly description?: string
  /** What to ask the issuer for. */
  readonly scopes?: readonly string[]
  /** Where the resource's metadata stand (RFC 9728 §5.1). */
  readonly resourceMetadata?: string | undefined
}

/** RFC 6750 §3. The description comes last, as clients that search the header may find other names within it. */
export function challenge({ error, description, scopes = [], resourceMetadata }: Challenge): string {
  const parameters = {
    realm: 'svc',
    error,
    scope: scopes.length === 0 ? undefined : scopes.join(' '),
    resource_metadata: resourceMetadata,
    // What §3 lets stand inside the quotes.
    error_description: description?.replaceAll('"', "'").replace(/[^\x20-\x5b\x5d-\x7e]/g, '?'),
  }
  const told = Object.entries(parameters).filter(([, value]) => value !== undefined)
  return `Bearer ${told.map(([name, value]) => `${name}="${value}"`).join(', ')}`
}
