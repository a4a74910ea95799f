// Refusals. They name what is wrong with the token or its header, and never quote the token.
import { type ErrorCode, Refusal } from '@svc/core'
import { bearerTokenIn } from '@svc/core/http'
import * as errors from 'jose/errors'

export function unauthenticated(message: string): Refusal {
  return new Refusal('UNAUTHENTICATED', message)
}

/** Why a token is refused that its issuer signed for this gateway. */
export type TokenReason = 'claim_unusable' | 'proof_required' | 'wrong_token_type'

export class TokenRefusal extends Refusal {
  constructor(
    code: ErrorCode,
    message: string,
    readonly reason?: TokenReason,
  ) {
    super(code, message)
  }
}

/** The refusal of a token with a valid signature and unacceptable claims: neither a new key nor time makes it valid. */
export class CacheableRefusal extends TokenRefusal {}

/** Quotes external input for a message: limited in length and on one line. */
export function quote(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}

/** The refusal for an error of jose; undefined for errors that do not concern the token. */
export function refusalOf(
  error: unknown,
  expected: { readonly issuer: string; readonly kid: string | undefined },
): Refusal | undefined {
  if (error instanceof errors.JWTExpired) {
    return unauthenticated(`The token expired at ${formatTime(error.payload['exp'])}.`)
  }
  if (error instanceof errors.JWTClaimValidationFailed) {
    return unauthenticated(claimMessage(error, expected.issuer))
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    const named = expected.kid === undefined ? "the issuer's key" : `the issuer's key ${quote(expected.kid)}`
    return unauthenticated(`The token's signature does not verify against ${named}.`)
  }
  if (error instanceof errors.JOSEError) return unauthenticated(`The token is malformed: ${error.message}.`)
  return undefined
}

function claimMessage(error: errors.JWTClaimValidationFailed, issuer: string): string {
  const { claim, reason, payload } = error
  if (reason === 'missing') return `The token has no ${quote(claim)} claim.`
  if (reason === 'invalid') return `The token's ${quote(claim)} claim is not a number.`
  switch (claim) {
    case 'nbf':
      return `The token is not valid before ${formatTime(payload['nbf'])}.`
    case 'iss':
      return `The token was issued by ${quote(payload['iss'])}; this gateway accepts ${quote(issuer)}.`
    default:
      return `The token's ${quote(claim)} claim is not acceptable.`
  }
}

/** A NumericDate (RFC 7519 §2) in ISO 8601 if it has such a form. */
function formatTime(seconds: unknown): string {
  const date = new Date(typeof seconds === 'number' ? seconds * 1000 : Number.NaN)
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString()
}

/** The parameters of a `WWW-Authenticate` challenge. */
export interface Challenge {
  /** Absent for a call without a token (RFC 6750 §3.1). */
  readonly error?: 'invalid_token' | 'insufficient_scope'
  readonly description?: string
  /** The scopes to request from the issuer. */
  readonly scopes?: readonly string[]
  /** URL of the resource metadata (RFC 9728 §5.1). */
  readonly resourceMetadata?: string | undefined
}

/** RFC 6750 §3. The description is last, because simple clients could find parameter names inside it. */
export function challenge({ error, description, scopes = [], resourceMetadata }: Challenge): string {
  const parameters = {
    realm: 'svc',
    error,
    scope: scopes.length === 0 ? undefined : scopes.join(' '),
    resource_metadata: resourceMetadata,
    // §3 restricts the characters inside the quotes.
    error_description: description?.replaceAll('"', "'").replace(/[^\x20-\x5b\x5d-\x7e]/g, '?'),
  }
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined)
  return `Bearer ${given.map(([name, value]) => `${name}="${value}"`).join(', ')}`
}

/**
 * The bearer token. Throws `Refusal` for everything else: another scheme, no token, or two headers in one value, which
 * `node:http` gives with `joinDuplicateHeaders`.
 */
export function bearerToken(authorization: string): string {
  const token = bearerTokenIn(authorization)
  if (token !== undefined) return token
  const [, scheme = ''] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?: |$)/.exec(authorization) ?? []
  if (scheme !== '' && scheme.toLowerCase() !== 'bearer') {
    // The rest of the header may be a password, so the message names only the scheme, and only a short one.
    const name = scheme.length <= 20 ? `"${scheme}" ` : ''
    throw unauthenticated(`The Authorization scheme ${name}is not accepted; send "Bearer <token>".`)
  }
  throw unauthenticated('The Authorization header is malformed; send "Bearer <token>", once.')
}
