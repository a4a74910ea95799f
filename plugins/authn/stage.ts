// Authenticates a call and sets its identity, or refuses it, before any other stage decides.
import {
  type Call,
  type Clock,
  type Denied,
  type DoctorCheck,
  type Finding,
  failed,
  type Hold,
  type Identify,
  type Identity,
  isRefusal,
  judgedOnly,
  type Lease,
  type MaybePromise,
  type Next,
  type Outcome,
  Refusal,
  recordedCall,
  type Stage,
  type StageHealth,
  type TrustedCaller,
  trustedCaller,
} from '@svc/core'
import type { DescribeResource } from '@svc/core/http'
import { sha256Hex } from '@svc/core/json'
import { AccessCheck, describeResource, tenantMismatch } from './access-check.js'
import { Audiences, type EndpointNames } from './audience.js'
import { placesText } from './claims.js'
import { type AuthnConfig, audiencesOf, issuersOf, type OidcConfig, type ScopesConfig } from './config.js'
import { type KeyCache, KeysUnavailableError } from './key-cache.js'
import { bearerToken, CacheableRefusal, quote } from './refusals.js'
import { TokenCache, type VerifiedToken } from './token-cache.js'
import { TokenVerifier, verifierFor } from './verifier.js'

const keysUnavailableMessage =
  "The token cannot be checked now, because the issuer's keys cannot be fetched. Try again later."

export const configurationHint =
  'set authn.oidc (issuer, audience, jwks_uri) to validate tokens, or authn.allowUnauthenticated: true to accept calls without a token'

const anonymousHint =
  'send none, as authn.allowUnauthenticated allows, or set authn.oidc (issuer, audience, jwks_uri)'

/** The resources that survive a reload: the keys of each issuer, in the order of the policy, and the verified tokens. */
export interface AuthnLeases {
  readonly keys: readonly Lease<KeyCache>[]
  readonly tokens: Lease<TokenCache>
}

interface AuthnStageOptions {
  readonly clock: Clock
  /** The gateway's own tenant. */
  readonly tenant: string
  /** The caller of calls without a token, if all calls come over stdio. */
  readonly stdioCaller?: TrustedCaller
  /** The gateway's URL for clients, if the policy has one. */
  readonly publicUrl: string | undefined
  /** The targets and groups. */
  readonly endpoints: EndpointNames
  /** Opens the caches; called at start, and only with issuers. */
  lease(): AuthnLeases
  doctor(): Promise<readonly DoctorCheck[]>
}

interface StartedState {
  readonly leases: AuthnLeases
  readonly tokens: TokenCache
  readonly verifiers: readonly TokenVerifier[]
}

export class AuthnStage implements Stage {
  readonly effects = 'stores'
  #config: AuthnConfig
  #issuers: readonly OidcConfig[]
  #parts: AuthnStageOptions
  #anonymous: Identity
  /** By the place of the issuer in the policy. */
  #accessChecks: readonly AccessCheck[]
  /** Checks callers without a token of an issuer. */
  #accessCheck: AccessCheck
  #opened: StartedState | undefined
  /** That the token of a recorded caller may be refused; its scopes are judged for each call. */
  readonly #otherToken: Finding
  /** By the caller of a recorded call: the same one, with the subject that the record has as another member. */
  readonly #withSubject = new WeakMap<TrustedCaller, TrustedCaller>()

  constructor(config: AuthnConfig, parts: AuthnStageOptions) {
    this.#config = config
    this.#parts = parts
    this.#anonymous = Object.freeze({
      tenant: parts.tenant,
      authenticated: false,
      roles: Object.freeze([]),
    })
    this.#issuers = issuersOf(config)
    this.#accessChecks = this.#issuers.map((oidc) => new AccessCheck(oidc, parts.publicUrl))
    this.#accessCheck = this.#accessChecks[0] ?? new AccessCheck(undefined, parts.publicUrl)
    const oidc = this.#issuers.map((issuer) => ({ ...issuer, scopes: undefined }))
    const basis = sha256Hex(JSON.stringify({ ...config, oidc }))
    this.#otherToken = {
      reason: 'invalid_token',
      stage: 'authn',
      ruling: 'deny',
      possible: { missing: ['the token'], basis, isPresumedAbsent: true },
    }
  }

  /** Starts to fetch the keys and does not wait, so that gateway and issuer may start in any order. */
  async start(): Promise<void> {
    if (this.#issuers.length === 0 || this.#opened !== undefined) return
    const { clock, publicUrl, endpoints } = this.#parts
    const leases = this.#parts.lease()
    const verifiers = leases.keys.flatMap(({ value: keys }, place) => {
      const oidc = this.#issuers[place]
      if (oidc === undefined) return []
      const audiences = new Audiences(audiencesOf(oidc), publicUrl, endpoints)
      const others = this.#issuers.filter((other) => other !== oidc)
      const foreignTenants = new Set(others.flatMap(({ tenants = [] }) => tenants))
      return [new TokenVerifier({ oidc, place, audiences, keys, foreignTenants }, clock)]
    })
    this.#opened = { leases, tokens: leases.tokens.value, verifiers }
    for (const { keys } of verifiers) keys.isFresh()
  }

  async stop(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    if (opened === undefined) return
    const { tokens, keys } = opened.leases
    await Promise.all([tokens, ...keys].map((lease) => lease.release()))
  }

  /** The callers of an issuer whose keys cannot be fetched are refused; those of the others are served. */
  health(): StageHealth | undefined {
    const verifiers = this.#opened?.verifiers ?? []
    const reasons = verifiers.flatMap(({ keys }) => keys.unavailableReason() ?? [])
    if (reasons.length === 0) return undefined
    return { state: reasons.length === verifiers.length ? 'down' : 'warning', reason: reasons.join('; ') }
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#parts.doctor()
  }

  /** Undefined without an issuer. */
  get describeResource(): DescribeResource | undefined {
    return this.#issuers.length === 0 ? undefined : (servers) => describeResource(this.#accessChecks, servers)
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (call.isNoted) this.#explain(call)
    const trusted = call.get(trustedCaller)
    if (trusted !== undefined) return this.#checkTrusted(call, trusted, next)
    // Despite its type it is an array if the HTTP parser keeps repeated headers apart.
    const authorization: unknown = call.headers.authorization
    if (authorization === undefined) return this.#withoutToken(call, next)
    const opened = this.#opened
    if (typeof authorization === 'string' && opened !== undefined) {
      const digest = TokenCache.digest(authorization)
      const known = opened.tokens.get(digest, this.#parts.clock.now())
      if (known !== undefined && opened.verifiers[known.issuer]?.keys.isFresh() === true)
        return this.#checkToken(call, known, next)
    }
    return this.#withToken(call, next, authorization)
  }

  #checkTrusted(call: Call, trusted: TrustedCaller, next: Next): MaybePromise<Outcome> {
    // Read only if it decides: a record may not have it.
    const named = this.#issuers.length < 2 ? undefined : trusted.identity.issuer
    const place = Math.max(
      0,
      this.#issuers.findIndex(({ issuer }) => issuer === named),
    )
    const access = this.#accessChecks[place] ?? this.#accessCheck
    return access.checkCaller(call, this.#known(call, trusted, this.#issuers[place]), next)
  }

  /** A recorded caller had a token, which another configuration may refuse or read in another way. */
  #known(call: Call, trusted: TrustedCaller, oidc: OidcConfig | undefined): TrustedCaller {
    if (call.get(recordedCall) === undefined) return trusted
    call.addFinding(this.#otherToken)
    if (oidc?.subjectClaim !== 'sub') return trusted
    const known = this.#withSubject.get(trusted)
    if (known !== undefined) return known
    const subject = { get: () => trusted.identity.userId, enumerable: true }
    const named = Object.create(trusted, {
      identity: { value: Object.create(trusted.identity, { subject }) },
    })
    this.#withSubject.set(trusted, named)
    return named
  }

  #explain(call: Call): void {
    const { allowUnauthenticated } = this.#config
    for (const oidc of this.#issuers) {
      const tenant =
        oidc.tenant === undefined
          ? `its tenant in the claim ${placesText(oidc.tenantClaim)}`
          : `of tenant "${oidc.tenant}"`
      const audience = audiencesOf(oidc).join(' or ')
      call.note(`requires a bearer token of ${oidc.issuer} for the audience ${audience}, ${tenant}`)
      for (const line of describeScopes(oidc.scopes)) call.note(line)
    }
    if (allowUnauthenticated) call.note(`accepts calls without a token, as tenant "${this.#parts.tenant}"`)
    else if (this.#issuers.length === 0) call.note(`refuses every call; ${configurationHint}`)
    const assumed = call.get(judgedOnly) && call.get(trustedCaller)
    if (assumed !== undefined) call.note(`assumes a token of tenant "${assumed.identity.tenant}"`)
  }

  async #withToken(call: Call, next: Next, authorization: unknown): Promise<Outcome> {
    let token: VerifiedToken
    try {
      token = await this.#verified(authorization)
    } catch (error) {
      return this.#refusal(call, error)
    }
    return this.#checkToken(call, token, next)
  }

  #checkToken(call: Call, token: VerifiedToken, next: Next): MaybePromise<Outcome> {
    const access = this.#accessChecks[token.issuer] ?? this.#accessCheck
    call.hold(new TokenHold(call, token, access, this.#parts.clock))
    return access.checkCaller(call, token, next)
  }

  /** Rejects with `Refusal` or `KeysUnavailableError`. */
  async #verified(authorization: unknown): Promise<VerifiedToken> {
    if (typeof authorization !== 'string') {
      throw new Refusal('UNAUTHENTICATED', 'There is more than one Authorization header; send one.')
    }
    const opened = this.#opened
    if (opened === undefined) throw this.#notConfigured()
    const { tokens, verifiers } = opened
    const { clock } = this.#parts
    const bearer = bearerToken(authorization)
    const verifier = verifierFor(verifiers, bearer)
    // Checked before keys are fetched: a malformed token causes no request, and its response does not depend on the
    // issuer.
    const unverified = verifier.read(bearer)
    const digest = TokenCache.digest(authorization)
    await verifier.keys.current()
    // Looked up again after the wait, as the keys may have changed, and another call may have verified the token.
    const known = tokens.get(digest, clock.now())
    if (known !== undefined) return known
    const refusal = tokens.refusal(digest, clock.now())
    if (refusal !== undefined) throw refusal
    try {
      const token = await verifier.verify(unverified)
      tokens.set(digest, token, clock.now())
      return token
    } catch (error) {
      if (error instanceof CacheableRefusal) tokens.setRefusal(digest, error, clock.now())
      throw error
    }
  }

  readonly identify: Identify = async (headers, acceptsServers) => {
    const caller = await this.#caller(headers.authorization, acceptsServers)
    const error = tenantMismatch(headers['x-tenant'], caller)
    if (error !== undefined) throw error
    return caller
  }

  async #caller(authorization: unknown, acceptsServers: Parameters<Identify>[1]): Promise<Identity> {
    if (authorization === undefined) {
      const { stdioCaller } = this.#parts
      if (stdioCaller !== undefined) return stdioCaller.identity
      if (this.#config.allowUnauthenticated) return this.#anonymous
      throw new Refusal('UNAUTHENTICATED', this.#missingTokenMessage())
    }
    let token: VerifiedToken
    try {
      token = await this.#verified(authorization)
    } catch (error) {
      if (!(error instanceof KeysUnavailableError)) throw error
      throw new Refusal('STORE_UNAVAILABLE', keysUnavailableMessage, { cause: error })
    }
    const { servers } = token
    if (servers === undefined || (await acceptsServers?.(servers)) === true) return token.identity
    throw new Refusal('UNAUTHENTICATED', 'The token is for a single server of this gateway.')
  }

  #refusal(call: Call, error: unknown): Outcome {
    if (isRefusal(error)) return this.#accessCheck.invalidToken(call, error)
    if (error instanceof KeysUnavailableError) {
      return failed('STORE_UNAVAILABLE', keysUnavailableMessage, {
        headers: { 'retry-after': String(error.retryAfterSec) },
        cause: error,
      })
    }
    throw error
  }

  #withoutToken(call: Call, next: Next): MaybePromise<Outcome> {
    const { stdioCaller } = this.#parts
    if (stdioCaller !== undefined) return this.#accessCheck.checkCaller(call, stdioCaller, next)
    if (this.#config.allowUnauthenticated)
      return this.#accessCheck.checkAnonymous(call, this.#anonymous, next)
    return Promise.resolve(this.#accessCheck.missingToken(call, this.#missingTokenMessage()))
  }

  #missingTokenMessage(): string {
    if (this.#issuers.length === 0) return `This gateway accepts no calls: ${configurationHint}.`
    const names = this.#issuers.map(({ issuer }) => quote(issuer)).join(' or ')
    const publicClientId = this.#issuers.find((one) => one.publicClientId !== undefined)?.publicClientId
    const required = `A bearer token of ${names} is required; send "Authorization: Bearer <token>".`
    if (publicClientId === undefined) return required
    return `${required} To sign in, configure the OAuth client id ${quote(publicClientId)} in your MCP client.`
  }

  #notConfigured(): Refusal {
    const hint = this.#config.allowUnauthenticated ? anonymousHint : configurationHint
    return new Refusal('UNAUTHENTICATED', `No token can be validated without authn.oidc: ${hint}.`)
  }
}

function describeScopes(scopes: ScopesConfig | undefined): string[] {
  if (scopes === undefined) return []
  const { required, servers, tools } = scopes
  const parts = [
    ...(required.length === 0 ? [] : [`${required.join(' ')} for every call`]),
    ...Object.entries({ ...servers, ...tools }).map(([what, names]) => `${names.join(' ')} for ${what}`),
  ]
  return parts.length === 0 ? [] : [`requires the scopes ${parts.join(', ')}`]
}

/**
 * A token is checked again directly before its call is sent: the call may have waited for a person, or for another call.
 */
class TokenHold implements Hold {
  #call: Call
  #token: Pick<VerifiedToken, 'notAfter'>
  #accessCheck: AccessCheck
  #clock: Clock

  constructor(call: Call, token: Pick<VerifiedToken, 'notAfter'>, accessCheck: AccessCheck, clock: Clock) {
    this.#call = call
    this.#token = token
    this.#accessCheck = accessCheck
    this.#clock = clock
  }

  commit(): Denied | undefined {
    if (this.#clock.now() <= this.#token.notAfter) return undefined
    const expired = new Refusal('UNAUTHENTICATED', 'The token has expired while the call waited.')
    return this.#accessCheck.invalidToken(this.#call, expired)
  }

  release(): void {
    // Nothing is taken.
  }
}
