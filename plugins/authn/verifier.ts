// Verifies a token: signature, issuer, audience and validity period. jose does all cryptography.
import { type Clock, isRefusal, type Refusal } from '@svc/core'
import type { JWTPayload } from 'jose'
import { decodeProtectedHeader } from 'jose/decode/protected_header'
import * as errors from 'jose/errors'
import { jwtVerify } from 'jose/jwt/verify'
import type { Audiences } from './audience.js'
import { identityOf, scopesOf, type TokenClaims, withScopes } from './claims.js'
import type { OidcConfig, SignatureAlgorithm } from './config.js'
import type { KeyCache } from './key-cache.js'
import type { IssuerKey } from './key-set.js'
import { CacheableRefusal, quote, refusalOf, TokenRefusal, unauthenticated } from './refusals.js'
import type { VerifiedToken } from './token-cache.js'

interface Header {
  readonly alg: SignatureAlgorithm
  readonly kid: string | undefined
}

/** A well-formed token. */
interface UnverifiedToken {
  readonly token: string
  readonly header: Header
}

export class TokenVerifier {
  #oidc: OidcConfig
  #audiences: Audiences
  #accepted: string[]
  #keys: KeyCache
  #clock: Clock

  constructor(oidc: OidcConfig, audiences: Audiences, keys: KeyCache, clock: Clock) {
    this.#oidc = oidc
    this.#audiences = audiences
    this.#accepted = audiences.accepted
    this.#keys = keys
    this.#clock = clock
  }

  /** Checks only the form. Throws `Refusal` for a token that no key could verify. */
  read(token: string): UnverifiedToken {
    return { token, header: this.#header(token) }
  }

  /** Throws `Refusal` for an invalid token, `KeysUnavailableError` when it cannot be checked. */
  async verify({ token, header }: UnverifiedToken): Promise<VerifiedToken> {
    const { alg, kid } = header
    let key = onlyKey(await this.#keys.find(alg, kid), header)
    let payload = await this.#verifySignature(token, header, key)
    if (payload === undefined) {
      // Some issuers replace a key under the same `kid`, or use no `kid`.
      const renewed = onlyKey(await this.#keys.findAfterRefresh(alg, kid), header)
      payload = renewed === key ? undefined : await this.#verifySignature(token, header, renewed)
      key = renewed
    }
    if (payload === undefined) throw this.#refusal(new errors.JWSSignatureVerificationFailed(), header)
    const toleranceMs = this.#oidc.clockToleranceSec * 1000
    return {
      ...this.#readClaims(payload),
      servers: this.#audiences.serversFor(payload.aud),
      key,
      notBefore: payload.nbf === undefined ? Number.NEGATIVE_INFINITY : payload.nbf * 1000 - toleranceMs,
      notAfter: (payload.exp ?? 0) * 1000 + toleranceMs,
    }
  }

  #readClaims(payload: JWTPayload): Pick<VerifiedToken, 'identity' | 'scopes'> {
    const { scopes: required, scopeClaim, idTokens } = this.#oidc
    checkTokenType(payload, idTokens)
    const identity = identityOf(payload, this.#oidc)
    const scopes = scopesOf(payload, scopeClaim, required !== undefined)
    return { identity: withScopes(identity, scopes), scopes }
  }

  #header(token: string): Header {
    const parts = token.split('.').length
    if (parts === 5)
      throw unauthenticated('The token is encrypted (JWE); only signed tokens (JWS) are accepted.')
    if (parts !== 3) throw unauthenticated('The token is malformed: it is not a JWT of three parts.')
    let header: { alg?: unknown; kid?: unknown; typ?: unknown }
    try {
      header = decodeProtectedHeader(token)
    } catch {
      throw unauthenticated('The token is malformed: its header is not base64url of a JSON object.')
    }
    const { alg, kid, typ } = header
    if (alg === 'none') throw unauthenticated('The token is not signed (alg "none").')
    const accepted = this.#oidc.algorithms.find((algorithm) => algorithm === alg)
    if (accepted === undefined) {
      throw unauthenticated(
        `The token is signed with ${quote(alg)}; accepted are ${this.#oidc.algorithms.join(', ')}.`,
      )
    }
    if (kid !== undefined && typeof kid !== 'string') {
      throw unauthenticated('The token is malformed: the "kid" of its header is not a string.')
    }
    checkHeaderType(typ)
    return { alg: accepted, kid }
  }

  /** The claims; undefined when the signature is wrong. */
  async #verifySignature(token: string, header: Header, key: IssuerKey): Promise<JWTPayload | undefined> {
    let imported: Awaited<ReturnType<IssuerKey['cryptoKey']>>
    try {
      imported = await key.cryptoKey(header.alg)
    } catch {
      // The issuer published an invalid key; the details do not help the caller.
      throw unauthenticated(`The issuer's key ${quote(key.kid ?? '')} is not a valid key for ${header.alg}.`)
    }
    const { issuer, clockToleranceSec } = this.#oidc
    try {
      const { payload } = await jwtVerify(token, imported, {
        algorithms: [header.alg],
        issuer,
        audience: this.#accepted,
        clockTolerance: clockToleranceSec,
        currentDate: new Date(this.#clock.now()),
        // Without `exp` a leaked token would stay valid (RFC 9068 §2.2 requires it too).
        requiredClaims: ['exp'],
      })
      return payload
    } catch (error) {
      if (error instanceof errors.JWSSignatureVerificationFailed) return undefined
      const refusal = this.#refusal(error, header)
      // jose checks the claims only after the signature.
      const isCacheable = error instanceof errors.JWTExpired || isClaimError(error)
      throw isRefusal(refusal) && isCacheable ? new CacheableRefusal(refusal.code, refusal.message) : refusal
    }
  }

  #refusal(error: unknown, { kid }: Header): Refusal | unknown {
    return refusalOf(error, { issuer: this.#oidc.issuer, audience: this.#oidc.audience, kid }) ?? error
  }
}

/** All but `nbf`, as the token becomes valid later. */
function isClaimError(error: unknown): boolean {
  return error instanceof errors.JWTClaimValidationFailed && error.claim !== 'nbf'
}

function onlyKey(found: readonly IssuerKey[], { alg, kid }: Header): IssuerKey {
  const [key] = found
  if (key === undefined) {
    throw unauthenticated(
      kid === undefined
        ? `The issuer has no key for ${alg}.`
        : `The token names the key ${quote(kid)}, which the issuer does not have for ${alg}.`,
    )
  }
  if (found.length > 1) {
    // OpenID Connect Core §10.1: with several keys in the set, the token must name one.
    throw unauthenticated(
      kid === undefined
        ? `The token names no key ("kid"), and the issuer has ${found.length} for ${alg}.`
        : `The token names the key ${quote(kid)}, of which the issuer has ${found.length} for ${alg}.`,
    )
  }
  return key
}

// The same issuer also signs ID tokens with the same key, which anybody can get who signs a person in, and tokens whose
// holder has to prove a key that this gateway does not ask for: neither is an access token.

/** RFC 7515 §4.1.9 and RFC 9068 §4: names of media types, compared without case; `application/` may be left out. */
const headerType = /^(?:application\/)?(?:at\+)?jwt$/i

/** Of the `typ` of a token's header. @throws {TokenRefusal} */
function checkHeaderType(typ: unknown): void {
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
function checkTokenType(claims: TokenClaims, idTokens: OidcConfig['idTokens']): void {
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
