// Whether a caller who is known may make this call: its tenant, the server its token is meant for, its scopes. And
// how those who may not are answered, with all that an OAuth client needs to do better.
import {
  type Call,
  type Denied,
  denied,
  type Identity,
  identity,
  type MaybePromise,
  type Next,
  type Outcome,
  Refusal,
  reachedAt,
} from '@svc/core'
import { metadataUrl, type ResourceMetadata } from '@svc/core/http'
import { urlOf } from './audience.js'
import type { OidcConfig } from './config.js'
import { type Challenge, challenge, quote } from './refusals.js'
import { RequiredScopes } from './scopes.js'
import type { VerifiedToken } from './token-cache.js'

export class Admission {
  #hasIssuer: boolean
  #scopes: RequiredScopes | undefined
  #publicUrl: string | undefined

  constructor(oidc: OidcConfig | undefined, publicUrl: string | undefined) {
    this.#hasIssuer = oidc !== undefined
    this.#scopes = oidc?.scopes === undefined ? undefined : new RequiredScopes(oidc.scopes)
    this.#publicUrl = publicUrl
  }

  /** For a call with a good token. */
  admit(call: Call, token: VerifiedToken, next: Next): MaybePromise<Outcome> {
    // Also before a refusal: who called is known, and the record should say it.
    call.set(identity, token.identity)
    const fault = disagreement(call.headers['x-tenant'], token.identity)
    if (fault !== undefined) return Promise.resolve(this.refused(call, fault))
    if (token.servers === undefined && this.#scopes === undefined) return next()
    return this.#admitWithin(call, token, next)
  }

  /** For a call without a token, where those are let in. */
  async admitAnonymous(call: Call, who: Identity, next: Next): Promise<Outcome> {
    call.set(identity, who)
    const fault = disagreement(call.headers['x-tenant'], who)
    if (fault !== undefined) return this.refused(call, fault)
    if (this.#scopes !== undefined) {
      const needed = await this.#scopes.ofCall(call, await serverOf(call))
      if (needed.length > 0)
        return this.withoutToken(call, 'A bearer token is required for this call.', needed)
    }
    return next()
  }

  async #admitWithin(call: Call, token: VerifiedToken, next: Next): Promise<Outcome> {
    const server = await serverOf(call)
    if (token.servers !== undefined && !token.servers.has(server)) {
      return this.refused(
        call,
        new Refusal('UNAUTHENTICATED', 'The token is meant for another server of this gateway.'),
      )
    }
    if (this.#scopes === undefined) return next()
    const needed = await this.#scopes.ofCall(call, server)
    const missing = needed.filter((scope) => !token.scopes.has(scope))
    if (missing.length === 0) return next()
    const description = `The token lacks the scope${missing.length === 1 ? '' : 's'} ${missing.join(' ')}.`
    const scopes = this.#scopes.toAskFor(needed, token.scopes)
    return denied('TOOL_NOT_ALLOWED', description, {
      denial: { level: 'gateway', type: 'authn', reason: 'insufficient_scope' },
      headers: this.#headers(call, { error: 'insufficient_scope', description, scopes }),
    })
  }

  /** For a token, or an identity, that is not good. */
  refused(call: Call, { code, message }: Refusal): Denied {
    const scopes = this.#scopes?.ofServer(targetOf(call)) ?? []
    const headers = this.#headers(call, { error: 'invalid_token', description: message, scopes })
    return denied(code, message, { headers })
  }

  /** RFC 6750 §3.1: who came without a token is told no error. */
  withoutToken(call: Call, message: string, needed?: readonly string[]): Denied {
    const scopes = needed ?? this.#scopes?.ofServer(targetOf(call)) ?? []
    return denied('UNAUTHENTICATED', message, { headers: this.#headers(call, { scopes }) })
  }

  /** What the metadata say of a server, or of the gateway as a whole. */
  describe(issuer: string, server: string | undefined): ResourceMetadata {
    const scopes = this.#scopes?.ofServer(server) ?? []
    return {
      authorization_servers: [issuer],
      ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
      bearer_methods_supported: ['header'],
    }
  }

  #headers(call: Call, told: Challenge): { 'www-authenticate': string } {
    const resourceMetadata = this.#hasIssuer ? this.#metadataOf(call) : undefined
    return { 'www-authenticate': challenge({ ...told, resourceMetadata }) }
  }

  #metadataOf(call: Call): string | undefined {
    const base = this.#publicUrl ?? call.get(reachedAt)?.()
    const resource = base === undefined ? undefined : urlOf(base, targetOf(call))
    return resource === undefined ? undefined : metadataUrl(resource)
  }
}

/** Of `x-tenant` and the caller; undefined where it is absent or agrees. */
export function disagreement(wanted: string | string[] | undefined, who: Identity): Refusal | undefined {
  if (wanted === undefined || wanted === who.tenant) return undefined
  return new Refusal(
    'UNAUTHORIZED_TENANT',
    who.authenticated
      ? `x-tenant says ${quote(wanted)}, the token ${quote(who.tenant)}.`
      : `x-tenant says ${quote(wanted)}; a call without a token has the tenant ${quote(who.tenant)}.`,
  )
}

/** The server in the path; one that stands in the body is not known before that is read. */
function targetOf(call: Call): string | undefined {
  return call.protocol === 'a2a' ? undefined : call.target.server
}

/** Rejects with the request's `Refusal` where the server stands in the body. */
async function serverOf(call: Call): Promise<string> {
  return targetOf(call) ?? (await call.request()).server
}
