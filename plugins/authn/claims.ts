// Reads the caller's identity from the claims of a verified token. A claim of the wrong type is refused and not
// interpreted, because a wrong interpretation could grant another caller's permissions.

import { type Identity, isRefusal } from '@svc/core'
import { defined } from '@svc/core/json'
import type { OidcConfig } from './config.js'
import { CacheableRefusal, quote } from './refusals.js'

/** Maximum length of a tenant, user, subject, client, role or node, in UTF-16 units. */
const maxLength = 256

export type TokenClaims = Readonly<Record<string, unknown>>
type ClaimNames = Pick<
  OidcConfig,
  'tenantClaim' | 'userClaim' | 'rolesClaim' | 'subjectClaim' | 'clientIdClaim' | 'nodeClaim' | 'unitClaim'
>

/** @throws {CacheableRefusal} `UNAUTHORIZED_TENANT` if it has no tenant, else `UNAUTHENTICATED` */
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
    throw new CacheableRefusal(
      'UNAUTHENTICATED',
      `The token names no caller: it has no ${quote(names.userClaim)} claim, no subject and no client.`,
    )
  }
  const nodeId = names.nodeClaim === undefined ? undefined : text(claims, names.nodeClaim)
  const unit = names.unitClaim === undefined ? undefined : text(claims, names.unitClaim)
  return Object.freeze({
    tenant,
    authenticated: true,
    ...defined({ user, userId, clientId }),
    ...(typeof issuer === 'string' ? { issuer } : {}),
    ...defined({ subject, client }),
    roles: Object.freeze(rolesOf(claims, names.rolesClaim)),
    ...defined({ nodeId, unit }),
  })
}

/** The claim of that name, else the value at the dotted path, as in `realm_access.roles`. @throws {CacheableRefusal} */
function claim(claims: TokenClaims, name: string): unknown {
  const [first = name, ...steps] = Object.hasOwn(claims, name) ? [name] : name.split('.')
  for (const one of new Set([name, first])) refuseIfDistributed(claims, one)
  let at = Object.hasOwn(claims, first) ? claims[first] : undefined
  for (const step of steps) {
    if (at === undefined || at === null) return undefined
    if (!isObject(at)) throw unusable(first, 'is not an object', `an object with ${quote(step)} is expected`)
    at = Object.hasOwn(at, step) ? at[step] : undefined
  }
  return at
}

function isObject(value: unknown): value is TokenClaims {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The issuer says where the value is instead of stating it (OpenID Connect Core §5.6.2; Entra ID, if there are many groups). */
function refuseIfDistributed(claims: TokenClaims, name: string): void {
  const { _claim_names: names = Object.hasOwn(claims, '_claim_sources') ? undefined : {}, hasgroups } = claims
  if (!isObject(names))
    throw unusable(
      '_claim_names',
      'names no claims',
      'so it is unknown which ones the token does not contain',
    )
  const isElsewhere =
    Object.hasOwn(names, name) ||
    Object.keys(claims).some((key) => key.startsWith(`${name}:src`)) ||
    (name === 'groups' && hasgroups !== undefined && hasgroups !== false)
  if (!isElsewhere) return
  throw unusable(
    name,
    'is distributed: its values are not in the token',
    'let the issuer put them into the token (Entra ID: only the groups assigned to the application, or app roles)',
  )
}

/** A refusal, because to go on without the claim could allow more than its value does. */
function unusable(name: string, what: string, remedy?: string): CacheableRefusal {
  const then = remedy === undefined ? '' : `; ${remedy}`
  const message = `The token's ${quote(name)} claim ${what}${then}.`
  return new CacheableRefusal('UNAUTHENTICATED', message, 'claim_unusable')
}

function tenantOf(claims: TokenClaims, name: string): string {
  const value = text(claims, name)
  if (value === undefined) {
    throw new CacheableRefusal(
      'UNAUTHORIZED_TENANT',
      `The token has no ${quote(name)} claim, so its tenant is unknown.`,
    )
  }
  if (/[/\\]/.test(value)) throw unusable(name, 'contains a slash, which no tenant has')
  return value
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
  const error =
    errorOf(value) ?? (jsonText.test(String(value)) ? 'is JSON, but a name is expected' : undefined)
  if (error !== undefined) throw unusable(name, error)
  const { email_verified: verified = true } = claims
  if (name === 'email' && verified !== null && String(verified) !== 'true')
    throw unusable(name, 'is not verified by the issuer (email_verified)', 'verify the address there')
  return value as string
}

/** Some issuers write a list as text, which would be taken for a name that no rule has. */
const jsonText = /^\s*[[{"]/
/** With another separator than the space. A distinguished name (RFC 4514) has commas, after a "=". */
const separatedText = /^[^=]*[,;]/

function rolesOf(claims: TokenClaims, name: string): string[] {
  const value = claim(claims, name)
  if (typeof value === 'string' && (jsonText.test(value) || separatedText.test(value)))
    throw unusable(name, 'is a list written as text', 'let the issuer send a list of strings')
  return namesOf(value, name)
}

/** Throws `Refusal` if the claim has the wrong type; if no scope is required, such a claim has none. */
export function scopesOf(claims: TokenClaims, name: string, isRequired: boolean): ReadonlySet<string> {
  try {
    return new Set(namesOf(claim(claims, name), name))
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
function namesOf(value: unknown, name: string): string[] {
  if (value === undefined || value === null) return []
  const list: unknown = typeof value === 'string' ? value.split(' ').filter((one) => one !== '') : value
  if (!Array.isArray(list))
    throw unusable(name, 'is neither a list of strings nor a string, so its values are unknown')
  for (const [at, one] of list.entries()) {
    const error = errorOf(one)
    if (error !== undefined) throw unusable(name, `at index ${at} ${error}`)
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
