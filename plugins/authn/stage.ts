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
import { AccessCheck, tenantMismatch } from './access-check.js'
import { Audiences, type EndpointNames } from './audience.js'
import type { AuthnConfig, ScopesConfig } from './config.js'
import { type KeyCache, KeysUnavailableError } from './key-cache.js'
import { bearerToken, CacheableRefusal, quote } from './refusals.js'
import { TokenCache, type VerifiedToken } from './token-cache.js'
import { TokenVerifier } from './verifier.js'

const keysUnavailableMessage =
  "The token cannot be checked now, because the issuer's keys cannot be fetched. Try again later."

export const configurationHint =
  'set authn.oidc (issuer, audience, jwks_uri) to validate tokens, or authn.allowUnauthenticated: true to accept calls without a token'

const anonymousHint =
  'send none, as authn.allowUnauthenticated allows, or set authn.oidc (issuer, audience, jwks_uri)'

/** The resources that survive a reload. */
export interface AuthnLeases {
  readonly keys: Lease<KeyCache>
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
  /** Opens the caches; called at start, and only with `oidc`. */
  lease(oidc: NonNullable<AuthnConfig['oidc']>): AuthnLeases
  doctor(): Promise<readonly DoctorCheck[]>
}

interface StartedState {
  readonly leases: AuthnLeases
  readonly keys: KeyCache
  readonly tokens: TokenCache
  readonly verifier: TokenVerifier
}

export class AuthnStage implements Stage {
  readonly effects = 'stores'
  #config: AuthnConfig
  #parts: AuthnStageOptions
  #anonymous: Identity
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
    this.#accessCheck = new AccessCheck(config.oidc, parts.publicUrl)
    const basis = sha256Hex(JSON.stringify({ ...config, oidc: { ...config.oidc, scopes: undefined } }))
    this.#otherToken = {
      reason: 'invalid_token',
      stage: 'authn',
      ruling: 'deny',
      possible: { missing: ['the token'], basis, isPresumedAbsent: true },
    }
  }

  /** Starts to fetch the keys and does not wait, so that gateway and issuer may start in any order. */
  async start(): Promise<void> {
    const { oidc } = this.#config
    if (oidc === undefined || this.#opened !== undefined) return
    const { clock, publicUrl, endpoints } = this.#parts
    const leases = this.#parts.lease(oidc)
    const audiences = new Audiences(oidc.audience, publicUrl, endpoints)
    const keys = leases.keys.value
    this.#opened = {
      leases,
      keys,
      tokens: leases.tokens.value,
      verifier: new TokenVerifier(oidc, audiences, keys, clock),
    }
    keys.isFresh()
  }

  async stop(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await opened?.leases.tokens.release()
    await opened?.leases.keys.release()
  }

  health(): StageHealth | undefined {
    const reason = this.#opened?.keys.unavailableReason()
    return reason === undefined ? undefined : { state: 'down', reason }
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#parts.doctor()
  }

  /** Undefined without an issuer. */
  get describeResource(): DescribeResource | undefined {
    const { oidc } = this.#config
    return oidc && ((servers) => this.#accessCheck.describe(oidc.issuer, servers))
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (call.isNoted) this.#explain(call)
    const trusted = call.get(trustedCaller)
    if (trusted !== undefined) return this.#accessCheck.checkCaller(call, this.#known(call, trusted), next)
    // Despite its type it is an array if the HTTP parser keeps repeated headers apart.
    const authorization: unknown = call.headers.authorization
    if (authorization === undefined) return this.#withoutToken(call, next)
    const opened = this.#opened
    if (typeof authorization === 'string' && opened !== undefined) {
      const digest = TokenCache.digest(authorization)
      const known = opened.tokens.get(digest, this.#parts.clock.now())
      if (known !== undefined && opened.keys.isFresh()) return this.#checkToken(call, known, next)
    }
    return this.#withToken(call, next, authorization)
  }

  /** A recorded caller had a token, which another configuration may refuse or read in another way. */
  #known(call: Call, trusted: TrustedCaller): TrustedCaller {
    if (call.get(recordedCall) === undefined) return trusted
    call.addFinding(this.#otherToken)
    if (this.#config.oidc?.subjectClaim !== 'sub') return trusted
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
    const { oidc, allowUnauthenticated } = this.#config
    if (oidc !== undefined)
      call.note(
        `requires a bearer token of ${oidc.issuer} for the audience ${oidc.audience}, its tenant in the claim "${oidc.tenantClaim}"`,
      )
    for (const line of describeScopes(oidc?.scopes)) call.note(line)
    if (allowUnauthenticated) call.note(`accepts calls without a token, as tenant "${this.#parts.tenant}"`)
    else if (oidc === undefined) call.note(`refuses every call; ${configurationHint}`)
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
    call.hold(new TokenHold(call, token, this.#accessCheck, this.#parts.clock))
    return this.#accessCheck.checkCaller(call, token, next)
  }

  /** Rejects with `Refusal` or `KeysUnavailableError`. */
  async #verified(authorization: unknown): Promise<VerifiedToken> {
    if (typeof authorization !== 'string') {
      throw new Refusal('UNAUTHENTICATED', 'There is more than one Authorization header; send one.')
    }
    const opened = this.#opened
    if (opened === undefined) throw this.#notConfigured()
    const { keys, tokens, verifier } = opened
    const { clock } = this.#parts
    // Checked before keys are fetched: a malformed token causes no request, and its response does not depend on the
    // issuer.
    const unverified = verifier.read(bearerToken(authorization))
    const digest = TokenCache.digest(authorization)
    await keys.current()
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
    const { oidc } = this.#config
    if (oidc === undefined) return `This gateway accepts no calls: ${configurationHint}.`
    const { issuer, publicClientId } = oidc
    const required = `A bearer token of ${quote(issuer)} is required; send "Authorization: Bearer <token>".`
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
