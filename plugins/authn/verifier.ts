// Verifies a token: signature, issuer, audience and validity period. jose does all cryptography.
import { type Clock, isRefusal, type Refusal } from '@svc/core'
import type { JWTPayload } from 'jose'
import { decodeProtectedHeader } from 'jose/decode/protected_header'
import * as errors from 'jose/errors'
import { decodeJwt } from 'jose/jwt/decode'
import { jwtVerify } from 'jose/jwt/verify'
import type { Audiences } from './audience.js'
import { identityOf, scopesOf, type TokenClaims, withScopes } from './claims.js'
import { audiencesOf, type OidcConfig, type SignatureAlgorithm } from './config.js'
import type { KeyCache } from './key-cache.js'
import type { IssuerKey } from './key-set.js'
import { type AccessTokenMark, accessTokenMark, issuerNames, TENANT_ID } from './presets.js'
import { CacheableRefusal, quote, refusalOf, TokenRefusal, unauthenticated } from './refusals.js'
import type { VerifiedToken } from './token-cache.js'

interface Header {
  readonly alg: SignatureAlgorithm
  readonly kid: string | undefined
  readonly typ: string | undefined
}

/** A well-formed token. */
interface UnverifiedToken {
  readonly token: string
  readonly header: Header
}

/** An issuer of the policy, and its place there. */
export interface TrustedIssuer {
  readonly oidc: OidcConfig
  readonly place: number
  readonly audiences: Audiences
  readonly keys: KeyCache
  /** Tenants that another issuer lists as its own. */
  readonly foreignTenants: ReadonlySet<string>
}

/** Verifies the tokens of one issuer. */
export class TokenVerifier {
  readonly keys: KeyCache
  #oidc: OidcConfig
  #place: number
  #audiences: Audiences
  #foreignTenants: ReadonlySet<string>
  #spellings: readonly string[]
  #mark: AccessTokenMark | undefined
  #clock: Clock

  constructor({ oidc, place, audiences, keys, foreignTenants }: TrustedIssuer, clock: Clock) {
    this.keys = keys
    this.#oidc = oidc
    this.#place = place
    this.#audiences = audiences
    this.#foreignTenants = foreignTenants
    this.#spellings = issuerNames(oidc.preset, oidc.issuer)
    this.#mark = accessTokenMark(oidc.preset, oidc.issuer)
    this.#clock = clock
  }

  get issuer(): string {
    return this.#oidc.issuer
  }

  /** Whether the claims, not verified yet, say that this issuer has made the token. */
  isNamedBy(claims: TokenClaims): boolean {
    return typeof claims['iss'] === 'string' && this.#issuersFor(claims).includes(claims['iss'])
  }

  /** Checks only the form. Throws `Refusal` for a token that no key could verify. */
  read(token: string): UnverifiedToken {
    return { token, header: this.#header(token) }
  }

  /** Throws `Refusal` for an invalid token, `KeysUnavailableError` when it cannot be checked. */
  async verify({ token, header }: UnverifiedToken): Promise<VerifiedToken> {
    const { alg, kid } = header
    let key = onlyKey(await this.keys.find(alg, kid), header)
    let payload = await this.#verifySignature(token, header, key)
    if (payload === undefined) {
      // Some issuers replace a key under the same `kid`, or use no `kid`.
      const renewed = onlyKey(await this.keys.findAfterRefresh(alg, kid), header)
      payload = renewed === key ? undefined : await this.#verifySignature(token, header, renewed)
      key = renewed
    }
    if (payload === undefined) throw this.#refusal(new errors.JWSSignatureVerificationFailed(), header)
    this.#checkKey(key, payload)
    const toleranceMs = this.#oidc.clockToleranceSec * 1000
    return {
      ...this.#readClaims(payload, header),
      servers: this.#audiences.serversFor(this.#audienceOf(payload)),
      issuer: this.#place,
      key,
      notBefore: payload.nbf === undefined ? Number.NEGATIVE_INFINITY : payload.nbf * 1000 - toleranceMs,
      notAfter: (payload.exp ?? 0) * 1000 + toleranceMs,
    }
  }

  #readClaims(payload: JWTPayload, { typ }: Header): Pick<VerifiedToken, 'identity' | 'scopes'> {
    const { scopes: required, scopeClaim, issuer } = this.#oidc
    checkTokenType(payload, this.#oidc, typ, this.#mark)
    const identity = identityOf(payload, issuer.includes(TENANT_ID) ? `${payload.iss}` : issuer, this.#oidc)
    this.#checkTenant(identity.tenant)
    const scopes = scopesOf(payload, scopeClaim, required !== undefined)
    return { identity: withScopes(identity, scopes), scopes }
  }

  /** The values of `iss` for a token with these claims: those of its directory, if the issuer is one for many. */
  #issuersFor({ tid }: TokenClaims): readonly string[] {
    const { issuer } = this.#oidc
    if (!issuer.includes(TENANT_ID)) return this.#spellings
    return typeof tid === 'string' && /^[\w.-]+$/.test(tid) ? [issuer.replaceAll(TENANT_ID, tid)] : [issuer]
  }

  /** A key for many directories names the ones whose tokens it signs (Microsoft identity platform, "Validate the issuer"). */
  #checkKey({ issuer, kid }: IssuerKey, { iss, tid }: JWTPayload): void {
    if (issuer === undefined || !this.#oidc.issuer.includes(TENANT_ID)) return
    if (issuer.replaceAll(TENANT_ID, String(tid)) === iss) return
    throw unauthenticated(
      `The key ${quote(kid ?? '')} signs tokens of ${quote(issuer)}, not of ${quote(iss)}.`,
    )
  }

  #checkTenant(tenant: string): void {
    const { tenants, issuer } = this.#oidc
    if (tenants === undefined ? !this.#foreignTenants.has(tenant) : tenants.includes(tenant)) return
    const message = `The issuer ${quote(issuer)} may not assert the tenant ${quote(tenant)} (authn.oidc.tenants).`
    throw new CacheableRefusal('UNAUTHORIZED_TENANT', message)
  }

  /** The audiences, one of which is accepted. @throws {CacheableRefusal} */
  #audienceOf(claims: TokenClaims): readonly string[] {
    const { audienceClaim: name } = this.#oidc
    const value = claims[name]
    if (value === undefined)
      throw new CacheableRefusal('UNAUTHENTICATED', `The token has no ${quote(name)} claim.`)
    const named = (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string')
    if (named.some((one) => this.#audiences.accepts(one))) return named
    const own = audiencesOf(this.#oidc).map(quote).join(' or ')
    const message = `The token is for the audience ${quote(value)}; this gateway is ${own}.`
    throw new CacheableRefusal('UNAUTHENTICATED', message)
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
    return { alg: accepted, kid, typ: headerType(typ, this.#oidc.tokenTypes) }
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
    try {
      const { payload } = await jwtVerify(token, imported, {
        algorithms: [header.alg],
        issuer: [...this.#issuersFor(claimsIn(token))],
        clockTolerance: this.#oidc.clockToleranceSec,
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
    return refusalOf(error, { issuer: this.#oidc.issuer, kid }) ?? error
  }
}

/** The verifier of the issuer that the token names. A single one states itself the reason of a refusal. @throws {Refusal} */
export function verifierFor(verifiers: readonly TokenVerifier[], token: string): TokenVerifier {
  const claims = verifiers.length === 1 ? {} : claimsIn(token)
  const found = verifiers.length === 1 ? verifiers[0] : verifiers.find((one) => one.isNamedBy(claims))
  if (found !== undefined) return found
  const accepted = verifiers.map(({ issuer }) => quote(issuer)).join(', ')
  if (claims['iss'] === undefined) throw unauthenticated('The token is malformed, or has no "iss" claim.')
  throw unauthenticated(`The token was issued by ${quote(claims['iss'])}; this gateway accepts ${accepted}.`)
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
const knownType = /^(?:application\/)?((?:at\+)?jwt)$/i

/** The `typ` of a token's header, as the policy spells it. @throws {TokenRefusal} */
function headerType(typ: unknown, accepted: OidcConfig['tokenTypes']): string | undefined {
  if (typ === undefined && accepted === undefined) return undefined
  const [, name] = typeof typ === 'string' ? (knownType.exec(typ) ?? []) : []
  const spelled = name?.toLowerCase() === 'jwt' ? 'JWT' : name?.toLowerCase()
  const types: readonly (string | undefined)[] = accepted ?? ['at+jwt', 'JWT']
  if (spelled !== undefined && types.includes(spelled)) return spelled
  const list = accepted === undefined ? 'at+jwt, JWT, or none' : accepted.join(', ')
  const what = typ === undefined ? 'of no type' : `of type ${quote(typ)}`
  throw new TokenRefusal(
    'UNAUTHENTICATED',
    `The token is ${what}; accepted are access tokens: ${list}.`,
    'wrong_token_type',
  )
}

/** The claims of a token that is not verified; empty if they cannot be read. */
function claimsIn(token: string): TokenClaims {
  try {
    return decodeJwt(token)
  } catch {
    // Verification says what is wrong with it.
    return {}
  }
}

/** OpenID Connect Core §3.3.2.11 and FAPI: hashes of what an ID token was issued with. */
const hashes = ['at_hash', 'c_hash', 's_hash']

/** RFC 9068 §2.2. */
const accessTokenClaims = ['iss', 'exp', 'aud', 'sub', 'client_id', 'iat', 'jti']

/** @throws {CacheableRefusal} */
function checkTokenType(
  claims: TokenClaims,
  { idTokens, tokenTypes, preset }: OidcConfig,
  typ: string | undefined,
  mark: AccessTokenMark | undefined,
): void {
  // RFC 8417 §2.2: a security event, as also a logout is.
  if (Object.hasOwn(claims, 'events')) throw wrongType('a security event, by its "events" claim', '')
  const idMark =
    hashes.find((name) => Object.hasOwn(claims, name)) ??
    (claims['token_use'] === 'id' ? 'token_use' : undefined)
  if (idMark !== undefined && idTokens === 'refuse') {
    const remedy = '; if the issuer has no access tokens for this gateway, set authn.oidc.idTokens: accept'
    throw wrongType(`an ID token, by its ${quote(idMark)} claim`, remedy)
  }
  if (mark?.isIn(claims, typ) === false && idTokens === 'refuse')
    throw wrongType(`without ${mark.name}, which an access token of ${preset} has`, '')
  if (tokenTypes?.join() === 'at+jwt') {
    const missing = accessTokenClaims.find((name) => !Object.hasOwn(claims, name))
    if (missing !== undefined) throw wrongType(`without ${quote(missing)}, which RFC 9068 requires`, '')
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
