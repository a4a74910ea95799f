// Lets a call in with an identity, or says why not. Nothing further in is asked before that.
import {
  type Call,
  type Clock,
  type Denied,
  denied,
  failed,
  type Identify,
  type Identity,
  identity,
  type Lease,
  type Next,
  type Outcome,
  Refusal,
  type Stage,
  services,
  type Token,
} from '@svc/core'
import { bearerToken } from './bearer.js'
import type { AuthnConfig } from './config.js'
import { type KeyCache, KeysUnavailable } from './key-cache.js'
import { challenge, quote } from './refusals.js'
import { TokenCache, type VerifiedToken } from './token-cache.js'
import { TokenVerifier } from './verifier.js'

export const whatToSet =
  'set authn.oidc (issuer, audience, jwks_uri) to validate tokens, or authn.allowUnauthenticated: true to let calls without a token in'

const uncheckable = `No token can be validated without authn.oidc: ${whatToSet}.`
const repeated = 'There is more than one Authorization header; send one.'
const keysMissing =
  "The token cannot be checked now, because the issuer's keys cannot be fetched. Try again later."

/** What outlives a reload. */
export interface AuthnLeases {
  readonly keys: Lease<KeyCache>
  readonly tokens: Lease<TokenCache>
}

export interface AuthnStageParts {
  readonly clock: Clock
  /** The gateway's own tenant. */
  readonly tenant: string
  /** Opens the caches; asked at start, and only with `oidc`. */
  lease(oidc: NonNullable<AuthnConfig['oidc']>): AuthnLeases
}

interface Opened {
  readonly leases: AuthnLeases
  readonly keys: KeyCache
  readonly tokens: TokenCache
  readonly verifier: TokenVerifier
}

export class AuthnStage implements Stage {
  #config: AuthnConfig
  #parts: AuthnStageParts
  #anonymous: Identity
  #opened: Opened | undefined

  constructor(config: AuthnConfig, parts: AuthnStageParts) {
    this.#config = config
    this.#parts = parts
    this.#anonymous = Object.freeze({
      tenant: parts.tenant,
      authenticated: false,
      roles: Object.freeze([]),
    })
  }

  /** Begins to fetch the keys and does not wait: gateway and issuer may start in either order. */
  async start(): Promise<void> {
    const { oidc } = this.#config
    if (oidc === undefined || this.#opened !== undefined) return
    const leases = this.#parts.lease(oidc)
    const keys = leases.keys.value
    this.#opened = {
      leases,
      keys,
      tokens: leases.tokens.value,
      verifier: new TokenVerifier(oidc, keys, this.#parts.clock),
    }
    keys.fresh()
  }

  async stop(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await opened?.leases.tokens.release()
    await opened?.leases.keys.release()
  }

  ready(): string | undefined {
    return this.#opened?.keys.trouble()
  }

  offer<T>(service: Token<T>): T | undefined
  offer(service: symbol): unknown {
    return service === services.identify ? this.#identify : undefined
  }

  handle(call: Call, next: Next): Promise<Outcome> {
    // As a parser that keeps repeated headers apart would hand them on, whatever the type says.
    const authorization: unknown = call.headers.authorization
    if (authorization === undefined) return this.#withoutToken(call, next)
    if (typeof authorization !== 'string') return Promise.resolve(refused('UNAUTHENTICATED', repeated))
    const opened = this.#opened
    if (opened === undefined) return Promise.resolve(this.#uncheckable())
    const digest = TokenCache.digest(authorization)
    const known = opened.tokens.get(digest, this.#parts.clock.now())
    if (known !== undefined && opened.keys.fresh()) return admit(call, known.identity, next)
    return this.#withToken(call, next, opened, authorization, digest)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { oidc, allowUnauthenticated } = this.#config
    if (oidc !== undefined) {
      say(
        `requires a bearer token of ${oidc.issuer} for the audience ${oidc.audience}, its tenant in the claim "${oidc.tenantClaim}"`,
      )
    }
    if (allowUnauthenticated) say(`lets calls without a token in, as tenant "${this.#parts.tenant}"`)
    else if (oidc === undefined) say(`lets nobody in; ${whatToSet}`)

    const caller = call.get(identity)
    if (caller === undefined) return this.#withoutToken(call, next)
    if (oidc !== undefined) {
      say(`takes the caller to be of tenant "${caller.tenant}", as such a token would say`)
      return next()
    }
    if (!allowUnauthenticated) return this.#uncheckable()
    if (caller.user !== undefined || caller.roles.length > 0) return this.#uncheckable()
    return disagreement(caller.tenant, this.#anonymous) ?? next()
  }

  async #withToken(
    call: Call,
    next: Next,
    opened: Opened,
    authorization: string,
    digest: string,
  ): Promise<Outcome> {
    let token: VerifiedToken
    try {
      token = await this.#verified(opened, authorization, digest)
    } catch (fault) {
      return this.#refusal(fault)
    }
    return admit(call, token.identity, next)
  }

  async #verified(opened: Opened, authorization: string, digest: string): Promise<VerifiedToken> {
    await opened.keys.usable()
    // Asked again: the keys may have changed, and another call may have verified the token meanwhile.
    const known = opened.tokens.get(digest, this.#parts.clock.now())
    const token = known ?? (await opened.verifier.verify(bearerToken(authorization)))
    if (known === undefined) opened.tokens.remember(digest, token, this.#parts.clock.now())
    return token
  }

  #identify: Identify = async (headers) => {
    const who = await this.#whoSends(headers.authorization)
    const wanted = headers['x-tenant']
    const refusal = wanted === undefined ? undefined : disagreement(wanted, who)
    if (refusal !== undefined) throw new Refusal(refusal.code, refusal.message)
    return who
  }

  async #whoSends(authorization: unknown): Promise<Identity> {
    if (authorization === undefined) {
      if (this.#config.allowUnauthenticated) return this.#anonymous
      throw new Refusal('UNAUTHENTICATED', this.#tokenWanted())
    }
    if (typeof authorization !== 'string') throw new Refusal('UNAUTHENTICATED', repeated)
    const opened = this.#opened
    if (opened === undefined) throw new Refusal('UNAUTHENTICATED', uncheckable)
    try {
      return (await this.#verified(opened, authorization, TokenCache.digest(authorization))).identity
    } catch (cause) {
      if (cause instanceof KeysUnavailable) throw new Refusal('STORE_UNAVAILABLE', keysMissing, { cause })
      throw cause
    }
  }

  #refusal(fault: unknown): Outcome {
    if (fault instanceof Refusal) return refused(fault.code, fault.message)
    if (fault instanceof KeysUnavailable) {
      return failed('STORE_UNAVAILABLE', keysMissing, {
        headers: { 'retry-after': String(fault.retryAfterSec) },
        cause: fault,
      })
    }
    throw fault
  }

  #withoutToken(call: Call, next: Next): Promise<Outcome> {
    if (this.#config.allowUnauthenticated) return admit(call, this.#anonymous, next)
    return Promise.resolve(
      denied('UNAUTHENTICATED', this.#tokenWanted(), { headers: { 'www-authenticate': challenge() } }),
    )
  }

  #tokenWanted(): string {
    const issuer = this.#config.oidc?.issuer
    if (issuer === undefined) return `This gateway lets nobody in: ${whatToSet}.`
    return `A bearer token of ${quote(issuer)} is required; send "Authorization: Bearer <token>".`
  }

  #uncheckable(): Denied {
    return refused('UNAUTHENTICATED', uncheckable)
  }
}

function admit(call: Call, who: Identity, next: Next): Promise<Outcome> {
  // Also before a refusal: who called is known, and the record should say it.
  call.set(identity, who)
  const wanted = call.headers['x-tenant']
  if (wanted !== undefined) {
    const refusal = disagreement(wanted, who)
    if (refusal !== undefined) return Promise.resolve(refusal)
  }
  return next()
}

function disagreement(wanted: string | string[], who: Identity): Denied | undefined {
  if (wanted === who.tenant) return undefined
  return refused(
    'UNAUTHORIZED_TENANT',
    who.authenticated
      ? `x-tenant says ${quote(wanted)}, the token ${quote(who.tenant)}.`
      : `x-tenant says ${quote(wanted)}; a call without a token has the tenant ${quote(who.tenant)}.`,
  )
}

function refused(code: Refusal['code'], message: string): Denied {
  return denied(code, message, { headers: { 'www-authenticate': challenge(message) } })
}
