// Checks whether an authenticated caller may make this call: tenant, audience and scopes. Builds the refusals with the
// `WWW-Authenticate` challenge that an OAuth client needs to get a suitable token.
import {
  type Call,
  type Denied,
  denied,
  type Identity,
  identity,
  type MaybePromise,
  type Next,
  type Outcome,
  publicBaseUrl,
  Refusal,
  requestedResource,
} from '@svc/core'
import { metadataUrl, type ResourceMetadata } from '@svc/core/http'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import { type AllowedServers, urlOf } from './audience.js'
import type { OidcConfig, ScopesConfig } from './config.js'
import { signInIssuer } from './presets.js'
import { type Challenge, challenge, quote, TokenRefusal } from './refusals.js'

/** A caller with a valid token, or one that the embedding program vouches for. */
interface KnownCaller {
  readonly identity: Identity
  readonly scopes: ReadonlySet<string>
  /** The servers that its token gives access to; all servers if absent. */
  readonly servers?: AllowedServers
}

export class AccessCheck {
  #issuer: string | undefined
  #scopes: RequiredScopes | undefined
  #publicUrl: string | undefined

  constructor(oidc: OidcConfig | undefined, publicUrl: string | undefined) {
    this.#issuer = oidc?.issuer
    this.#scopes = oidc?.scopes === undefined ? undefined : new RequiredScopes(oidc.scopes)
    this.#publicUrl = publicUrl
  }

  checkCaller(call: Call, caller: KnownCaller, next: Next): MaybePromise<Outcome> {
    // Set even before a refusal, so that the record names the caller.
    call.set(identity, caller.identity)
    const error = tenantMismatch(call.headers['x-tenant'], caller.identity)
    if (error !== undefined) return Promise.resolve(this.invalidToken(call, error))
    if (caller.servers === undefined && this.#scopes === undefined) return next()
    return this.#checkServerAndScopes(call, caller, next)
  }

  /** The identity of a call without a token, if the policy allows such calls. */
  checkAnonymous(call: Call, caller: Identity, next: Next): MaybePromise<Outcome> {
    call.set(identity, caller)
    const claimed = call.headers['x-tenant']
    const error = claimed === undefined ? undefined : tenantMismatch(claimed, caller)
    if (error !== undefined) return this.invalidToken(call, error)
    return this.#scopes === undefined ? next() : this.#checkScopesOfAnonymous(call, this.#scopes, next)
  }

  async #checkScopesOfAnonymous(call: Call, scopes: RequiredScopes, next: Next): Promise<Outcome> {
    const needed = await scopes.forCall(call, await serverOf(call))
    if (needed.length === 0) return next()
    return this.missingToken(call, 'A bearer token is required for this call.', needed)
  }

  async #checkServerAndScopes(call: Call, caller: KnownCaller, next: Next): Promise<Outcome> {
    const server = await serverOf(call)
    if (caller.servers !== undefined && !caller.servers.has(server)) {
      return this.invalidToken(
        call,
        new Refusal('UNAUTHENTICATED', 'The token is for another server of this gateway.'),
      )
    }
    if (this.#scopes === undefined) return next()
    const needed = await this.#scopes.forCall(call, server)
    const missing = needed.filter((scope) => !caller.scopes.has(scope))
    if (missing.length === 0) return next()
    const description = `The token lacks the scope${missing.length === 1 ? '' : 's'} ${missing.join(' ')}.`
    const scopes = this.#scopes.toRequest(needed, caller.scopes)
    return denied('TOOL_NOT_ALLOWED', description, {
      denial: { level: 'gateway', type: 'authn', reason: 'insufficient_scope' },
      headers: this.#headers(call, { error: 'insufficient_scope', description, scopes }),
    })
  }

  /** The refusal of an invalid token, or of a tenant that does not match. */
  invalidToken(call: Call, refusal: Refusal): Denied {
    const { code, message } = refusal
    const reason = refusal instanceof TokenRefusal ? refusal.reason : undefined
    const scopes = this.#scopes?.forServers(serversOf(call)) ?? []
    const headers = this.#headers(call, { error: 'invalid_token', description: message, scopes })
    if (reason === undefined) return denied(code, message, { headers })
    return denied(code, message, { headers, denial: { level: 'gateway', type: 'authn', reason } })
  }

  /** RFC 6750 §3.1: without a token the challenge has no error code. */
  missingToken(call: Call, message: string, needed?: readonly string[]): Denied {
    const scopes = needed ?? this.#scopes?.forServers(serversOf(call)) ?? []
    return denied('UNAUTHENTICATED', message, { headers: this.#headers(call, { scopes }) })
  }

  /** The issuer at which clients get a token, and the scopes to request for these servers. */
  issuerAndScopes(servers: readonly string[]): { issuer: string | undefined; scopes: readonly string[] } {
    const issuer = this.#issuer === undefined ? undefined : signInIssuer(this.#issuer)
    return { issuer, scopes: this.#scopes?.forServers(servers) ?? [] }
  }

  #headers(call: Call, parameters: Challenge): { 'www-authenticate': string } {
    const resourceMetadata = this.#issuer === undefined ? undefined : this.#metadataOf(call)
    return { 'www-authenticate': challenge({ ...parameters, resourceMetadata }) }
  }

  #metadataOf(call: Call): string | undefined {
    const base = this.#publicUrl ?? call.get(publicBaseUrl)?.()
    if (base === undefined) return undefined
    const used = call.get(requestedResource)
    const resource = used === undefined ? urlOf(base, targetOf(call)) : `${base}${used.path}`
    return resource === undefined ? undefined : metadataUrl(resource)
  }
}

/** The metadata (RFC 9728) of a resource with these servers. */
export function describeResource(
  checks: readonly AccessCheck[],
  servers: readonly string[],
): ResourceMetadata {
  const found = checks.map((check) => check.issuerAndScopes(servers))
  const scopes = [...new Set(found.flatMap((one) => one.scopes))]
  return {
    authorization_servers: [...new Set(found.flatMap(({ issuer }) => issuer ?? []))],
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
  }
}

/** The refusal if `x-tenant` is not the caller's tenant; undefined if it is absent or equal. */
export function tenantMismatch(header: string | string[] | undefined, caller: Identity): Refusal | undefined {
  if (header === undefined || header === caller.tenant) return undefined
  return new Refusal(
    'UNAUTHORIZED_TENANT',
    caller.authenticated
      ? `x-tenant says ${quote(header)}, the token ${quote(caller.tenant)}.`
      : `x-tenant says ${quote(header)}; a call without a token has the tenant ${quote(caller.tenant)}.`,
  )
}

/** The servers of the endpoint that was used; empty if only the body names one. */
function serversOf(call: Call): readonly string[] {
  const server = targetOf(call)
  return call.get(requestedResource)?.servers ?? (server === undefined ? [] : [server])
}

/** The server named in the path; undefined if only the body names it. */
function targetOf(call: Call): string | undefined {
  const { server } = call.target
  const isNamed = call.get(requestedResource)?.servers.includes(server) ?? call.protocol !== 'a2a'
  return isNamed ? server : undefined
}

/** Reads the body if only it names the server; then rejects with the request's `Refusal`. */
async function serverOf(call: Call): Promise<string> {
  return targetOf(call) ?? (await call.request()).server
}

/** The scopes that a call requires (RFC 6749 §3.3). */
class RequiredScopes {
  #required: readonly string[]
  #servers: ReadonlyMap<string, readonly string[]>
  #tools: PatternMap<readonly string[]> | undefined
  #known: ReadonlySet<string>

  constructor({ required, servers, tools }: ScopesConfig) {
    this.#required = required
    this.#servers = new Map(
      Object.entries(servers).map(([server, scopes]) => [server.normalize('NFC'), [...required, ...scopes]]),
    )
    this.#tools = Object.keys(tools).length === 0 ? undefined : compilePatternMap(tools)
    this.#known = new Set([...required, ...Object.values(servers).flat(), ...Object.values(tools).flat()])
  }

  /** The scopes that calls of these servers require; without a server, every call of the gateway. */
  forServers(servers: readonly string[]): readonly string[] {
    return [...new Set([...this.#required, ...servers.flatMap((server) => this.#servers.get(server) ?? [])])]
  }

  /** The scopes that this call requires. Reads the request if patterns are configured; rejects with its `Refusal`. */
  async forCall(call: Call, server: string): Promise<readonly string[]> {
    const base = this.#servers.get(server) ?? this.#required
    if (this.#tools === undefined) return base
    const { kind, readings } = await call.request()
    if (kind === 'protocol') return base
    const found = this.#tools.lookup(readings).flat()
    return found.length === 0 ? base : [...new Set([...base, ...found.flatMap(({ value }) => value)])]
  }

  /**
   * The scopes for a challenge: the required ones, and those that the token has and the policy knows. A client that
   * requests the required ones alone would lose the others (MCP authorization, "Step-Up Authorization Flow").
   */
  toRequest(required: readonly string[], held: ReadonlySet<string>): string[] {
    return [...new Set([...required, ...[...held].filter((scope) => this.#known.has(scope))])]
  }
}
