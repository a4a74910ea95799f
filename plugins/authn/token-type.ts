// Tells access tokens from what the same issuer also signs with the same key: an ID token is for a client, which anybody can
// be whom a person signs in to, and the holder of a bound token has to prove a key that this gateway does not ask for.
import type { TokenClaims } from './claims.js'
import type { OidcConfig } from './config.js'
import { CacheableRefusal, quote, TokenRefusal } from './refusals.js'

/** RFC 7515 §4.1.9 and RFC 9068 §4: names of media types, compared without case; `application/` may be left out. */
const headerType = /^(?:application\/)?(?:at\+)?jwt$/i

/** Of the `typ` of a token's header. @throws {TokenRefusal} */
export function checkHeaderType(typ: unknown): void {
  if (typ === undefined || (typeof typ === 'string' && headerType.test(typ))) return
  throw new TokenRefusal(
    'UNAUTHENTICATED',
    `The token is of type ${quote(typ)}; accepted are access tokens: at+jwt, JWT, or none.`,
    'wrong_token_type',
  )
}

/** OpenID Connect Core §3.3.2.11 and FAPI: hashes of what an ID token was issued with. */
const hashes = ['at_hash', 'c_hash', 's_hash']

/** @throws {CacheableRefusal} */
export function checkTokenType(claims: TokenClaims, idTokens: OidcConfig['idTokens']): void {
  // RFC 8417 §2.2: a security event, as also a logout is.
  if (Object.hasOwn(claims, 'events')) throw wrongType('a security event, by its "events" claim', '')
  const mark =
    hashes.find((name) => Object.hasOwn(claims, name)) ??
    (claims['token_use'] === 'id' ? 'token_use' : undefined)
  if (mark !== undefined && idTokens === 'refuse') {
    const remedy = '; if the issuer has no access tokens for this gateway, set authn.oidc.idTokens: accept'
    throw wrongType(`an ID token, by its ${quote(mark)} claim`, remedy)
  }
  if (!Object.hasOwn(claims, 'cnf')) return
  throw new CacheableRefusal(
    'UNAUTHENTICATED',
    'The token is bound to a key (its "cnf" claim), of which this gateway takes no proof; request a bearer token that is not bound.',
    'proof_required',
  )
}

function wrongType(what: string, remedy: string): CacheableRefusal {
  return new CacheableRefusal(
    'UNAUTHENTICATED',
    `The token is ${what}; send an access token of the issuer${remedy}.`,
    'wrong_token_type',
  )
}
