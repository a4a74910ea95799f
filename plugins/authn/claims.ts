// Reads the caller's identity from the claims of a verified token. A claim of the wrong type is refused and not
// interpreted, because a wrong interpretation could grant another caller's permissions.
import { type Identity, isRefusal, Refusal } from '@svc/core'
import type { OidcConfig } from './config.js'
import { quote } from './refusals.js'

/** Maximum length of a tenant, user, subject, client, role or node, in UTF-16 units. */
const maxLength = 256

export type TokenClaims = Readonly<Record<string, unknown>>
type ClaimNames = Pick<
  OidcConfig,
  'tenantClaim' | 'userClaim' | 'rolesClaim' | 'subjectClaim' | 'clientIdClaim' | 'nodeClaim' | 'unitClaim'
>

/** Throws `Refusal`: `UNAUTHORIZED_TENANT` for the tenant claim, else `UNAUTHENTICATED`. */
export function identityOf(claims: TokenClaims, names: ClaimNames): Identity {
  const tenant = tenantOf(claims, names.tenantClaim)
  const user = text(claims, names.userClaim)
  const userId = text(claims, names.subjectClaim)
  const subject = text(claims, 'sub')
  // Already compared with the policy's issuer, so it is a string of any length.
  const { iss: issuer } = claims
  const client = clientOf(claims, names.clientIdClaim)
  const clientId = user === undefined ? (client ?? subject) : undefined
  if (user === undefined && clientId === undefined && userId === undefined) {
    throw new Refusal(
      'UNAUTHENTICATED',
      `The token names no caller: it has no ${quote(names.userClaim)} claim, no subject and no client.`,
    )
  }
  const nodeId = names.nodeClaim === undefined ? undefined : text(claims, names.nodeClaim)
  const unit = names.unitClaim === undefined ? undefined : text(claims, names.unitClaim)
  return Object.freeze({
    tenant,
    authenticated: true,
    ...(user === undefined ? {} : { user }),
    ...(userId === undefined ? {} : { userId }),
    ...(clientId === undefined ? {} : { clientId }),
    ...(typeof issuer === 'string' ? { issuer } : {}),
    ...(subject === undefined ? {} : { subject }),
    ...(client === undefined ? {} : { client }),
    roles: Object.freeze(rolesOf(claims, names.rolesClaim)),
    ...(nodeId === undefined ? {} : { nodeId }),
    ...(unit === undefined ? {} : { unit }),
  })
}

/** The claim of that name, else the value at the dotted path, as in `realm_access.roles`. */
function claim(claims: TokenClaims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  if (!name.includes('.')) return undefined
  let at: unknown = claims
  for (const step of name.split('.')) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) || !Object.hasOwn(at, step))
      return undefined
    at = (at as TokenClaims)[step]
  }
  return at
}

function tenantOf(claims: TokenClaims, name: string): string {
  const value = claim(claims, name)
  if (value === undefined || value === null) {
    throw new Refusal(
      'UNAUTHORIZED_TENANT',
      `The token has no ${quote(name)} claim, so its tenant is unknown.`,
    )
  }
  const error = typeof value === 'string' && /[/\\]/.test(value) ? 'contains a slash' : errorOf(value)
  if (error !== undefined) {
    throw new Refusal('UNAUTHORIZED_TENANT', `The token's tenant, its ${quote(name)} claim, ${error}.`)
  }
  return value as string
}

/** The client that the token was issued to. */
function clientOf(claims: TokenClaims, name: string | undefined): string | undefined {
  const named = name === undefined ? undefined : text(claims, name)
  return named ?? text(claims, 'azp') ?? text(claims, 'client_id')
}

/** An optional claim, which must be a string. */
function text(claims: TokenClaims, name: string): string | undefined {
  const value = claim(claims, name)
  if (value === undefined || value === null) return undefined
  const error = errorOf(value)
  if (error !== undefined) throw new Refusal('UNAUTHENTICATED', `The token's ${quote(name)} claim ${error}.`)
  return value as string
}

function rolesOf(claims: TokenClaims, name: string): string[] {
  return namesOf(claims, name, 'roles')
}

/** Throws `Refusal` if the claim has the wrong type; if no scope is required, such a claim has none. */
export function scopesOf(claims: TokenClaims, name: string, isRequired: boolean): ReadonlySet<string> {
  try {
    return new Set(namesOf(claims, name, 'scopes'))
  } catch (error) {
    if (isRequired || !isRefusal(error)) throw error
    return new Set()
  }
}

/** Rules and records read the scopes of the caller. */
export function withScopes(identity: Identity, scopes: ReadonlySet<string>): Identity {
  return scopes.size === 0 ? identity : Object.freeze({ ...identity, scopes: Object.freeze([...scopes]) })
}

/** A list of names, or one string of names separated by spaces, as OAuth's `scope` (RFC 6749 §3.3). */
function namesOf(claims: TokenClaims, name: string, what: string): string[] {
  const value = claim(claims, name)
  if (value === undefined || value === null) return []
  const list: unknown[] = typeof value === 'string' ? value.split(' ').filter((role) => role !== '') : []
  if (Array.isArray(value)) list.push(...value)
  else if (typeof value !== 'string') {
    throw new Refusal(
      'UNAUTHENTICATED',
      `The token's ${quote(name)} claim is neither a list of strings nor a string, so its ${what} are unknown.`,
    )
  }
  for (const [at, role] of list.entries()) {
    const error = errorOf(role)
    if (error !== undefined) {
      throw new Refusal('UNAUTHENTICATED', `The token's ${quote(name)} claim, at index ${at}, ${error}.`)
    }
  }
  return [...new Set(list as string[])]
}

/** Why a value is not accepted as a name. Names are written to records, store keys and file paths. */
function errorOf(value: unknown): string | undefined {
  if (Array.isArray(value)) return 'is a list, but one string is expected'
  if (typeof value !== 'string')
    return `is ${value === null ? 'null' : `of type ${typeof value}`}, but a string is expected`
  if (value.trim() === '') return 'is empty'
  if (value.length > maxLength) return `has ${value.length} characters, more than ${maxLength}`
  if (/\p{Cc}/u.test(value)) return 'contains control characters'
  if (!value.isWellFormed()) return 'is not well-formed Unicode'
  return undefined
}
