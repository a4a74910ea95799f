// Reads the caller's identity from the claims of a verified token. A claim of the wrong type is refused and not
// interpreted, because a wrong interpretation could grant another caller's permissions.

import { type Identity, isRefusal } from '@svc/core'
import { defined } from '@svc/core/json'
import type { ClaimPlaces, OidcConfig } from './config.js'
import { CacheableRefusal, quote } from './refusals.js'

/** Maximum length of a tenant, user, subject, client, role or node, in UTF-16 units. */
const maxLength = 256

export type TokenClaims = Readonly<Record<string, unknown>>
type ClaimNames = Pick<
  OidcConfig,
  | 'preset'
  | 'tenant'
  | 'tenantClaim'
  | 'userClaim'
  | 'rolesClaim'
  | 'subjectClaim'
  | 'clientIdClaim'
  | 'nodeClaim'
  | 'unitClaim'
>

/** A name or dotted path, or the steps of a path. */
type ClaimPath = string | readonly string[]

/** @throws {CacheableRefusal} `UNAUTHORIZED_TENANT` if it has no tenant, else `UNAUTHENTICATED` */
export function identityOf(claims: TokenClaims, issuer: string, names: ClaimNames): Identity {
  const tenant = names.tenant ?? tenantOf(claims, names)
  const client = clientOf(claims, names.clientIdClaim)
  const named = firstText(claims, names.userClaim)
  // RFC 9068 §2.2: without a person the subject is the client.
  const user = named === client ? undefined : named
  const userId = text(claims, names.subjectClaim)
  const subject = text(claims, 'sub')
  const clientId = user === undefined ? (client ?? subject) : undefined
  if (user === undefined && clientId === undefined && userId === undefined) {
    throw new CacheableRefusal(
      'UNAUTHENTICATED',
      `The token names no caller: it has no ${placesText(names.userClaim)} claim, no subject and no client.`,
    )
  }
  const nodeId = names.nodeClaim === undefined ? undefined : text(claims, names.nodeClaim)
  const unit = names.unitClaim === undefined ? undefined : text(claims, names.unitClaim)
  return Object.freeze({
    tenant,
    authenticated: true,
    ...defined({ user, userId, clientId }),
    issuer,
    ...defined({ subject, client }),
    roles: Object.freeze(rolesOf(claims, names.rolesClaim)),
    ...defined({ nodeId, unit }),
  })
}

/**
 * The claim of that name, else the value at the dotted path, as in `realm_access.roles`; a step into a list takes that member
 * of each of its objects. @throws {CacheableRefusal}
 */
function claim(claims: TokenClaims, path: ClaimPath): unknown {
  const whole = typeof path === 'string' && Object.hasOwn(claims, path) ? [path] : undefined
  const [first = '', ...steps] = whole ?? (typeof path === 'string' ? path.split('.') : path)
  for (const one of new Set([nameOf(path), first])) refuseIfDistributed(claims, one)
  const at = Object.hasOwn(claims, first) ? claims[first] : undefined
  return steps.reduce<unknown>((value, step) => memberOf(value, step, first), at)
}

function memberOf(value: unknown, step: string, first: string): unknown {
  if (value === undefined || value === null) return undefined
  if (Array.isArray(value)) {
    const members = value.map((one) => memberOf(one, step, first))
    if (members.every((member) => member !== undefined && member !== null)) return members.flat()
    throw unusable(first, `is a list in which not every entry has ${quote(step)}`)
  }
  if (!isObject(value)) throw unusable(first, 'is not an object', `an object with ${quote(step)} is expected`)
  return Object.hasOwn(value, step) ? value[step] : undefined
}

function nameOf(path: ClaimPath): string {
  return typeof path === 'string' ? path : path.join('.')
}

/** A list of strings alone is one path. */
function pathsIn(places: ClaimPlaces): readonly ClaimPath[] {
  if (typeof places === 'string') return [places]
  const steps = places.filter((place) => typeof place === 'string')
  return steps.length === places.length ? [steps] : places
}

/** Claim names for a message. */
export function placesText(places: ClaimPlaces): string {
  return pathsIn(places)
    .map((path) => quote(nameOf(path)))
    .join(' or ')
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

function tenantOf(claims: TokenClaims, { tenantClaim: places, preset }: ClaimNames): string {
  const value = firstOf(pathsIn(places), (path) => {
    const value = claim(claims, path)
    const found = textOf(claims, path, preset === 'keycloak' ? only(value) : value)
    if (found === undefined || !/[/\\]/.test(found)) return found
    throw unusable(nameOf(path), 'contains a slash, which no tenant has')
  })
  if (value === undefined) {
    throw new CacheableRefusal(
      'UNAUTHORIZED_TENANT',
      `The token has no ${placesText(places)} claim, so its tenant is unknown.`,
    )
  }
  return value
}

/** Keycloak lists the organizations of a person, by name or as the members of an object; one of them is a tenant. */
function only(value: unknown): unknown {
  const listed = isObject(value) ? Object.keys(value) : value
  return Array.isArray(listed) && listed.length === 1 ? listed[0] : listed
}

function firstOf<Value>(paths: readonly ClaimPath[], read: (path: ClaimPath) => Value | undefined) {
  for (const path of paths) {
    const value = read(path)
    if (value !== undefined) return value
  }
  return undefined
}

function firstText(claims: TokenClaims, places: ClaimPlaces): string | undefined {
  return firstOf(pathsIn(places), (path) => text(claims, path))
}

/** The client that the token was issued to. */
function clientOf(claims: TokenClaims, name: string | undefined): string | undefined {
  const named = name === undefined ? undefined : text(claims, name)
  return named ?? text(claims, 'azp') ?? text(claims, 'client_id')
}

/** An optional claim, which must be a string. */
function text(claims: TokenClaims, path: ClaimPath): string | undefined {
  return textOf(claims, path, claim(claims, path))
}

function textOf(claims: TokenClaims, path: ClaimPath, value: unknown): string | undefined {
  const name = nameOf(path)
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

function rolesOf(claims: TokenClaims, places: ClaimPlaces): string[] {
  const roles = pathsIn(places).flatMap((path) => {
    const value = claim(claims, path)
    if (typeof value === 'string' && (jsonText.test(value) || separatedText.test(value)))
      throw unusable(nameOf(path), 'is a list written as text', 'let the issuer send a list of strings')
    return namesOf(value, nameOf(path))
  })
  return [...new Set(roles)]
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
