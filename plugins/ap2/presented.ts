// The mandates that a call presents in its headers and in `_meta`, as text or objects.
import type { IncomingHttpHeaders } from 'node:http'
import { canonicalize, isJsonObject, type JsonObject, type JsonValue, membersLike } from '@svc/core/json'
import type { Ap2Config } from './config.js'
import { MandateError, malformed } from './mandate/error.js'
import { decodeBase64url, parseStrictObject } from './mandate/jwt.js'

/** Maximum length of one mandate, in characters. */
export const MAX_MANDATE = 64 * 1024

/** The text of a JSON object, raw or in base64url. */
export function objectOf(text: string): JsonObject {
  const bytes = text.startsWith('{')
    ? Buffer.from(text)
    : decodeBase64url(text.replace(/=+$/, ''), 'the value')
  return parseStrictObject(bytes, 'the value')
}

export type HeaderNames = Ap2Config['headers']

/** A member of a bundle, whose name may end in `Mandate`. */
const memberName = /^(intent|cart|payment|checkout|openCheckout|openPayment)(?:Mandate)?$/

const MAX_BUNDLE = 4 * MAX_MANDATE

/** The mandates as given, by role; the same mandate given twice counts once. */
export function presentedValues(
  headers: IncomingHttpHeaders,
  meta: JsonObject | undefined,
  names: HeaderNames,
): ReadonlyMap<string, string | JsonObject> {
  const found = new Map<string, string | JsonObject>()
  const sources: ReadonlyArray<(name: string) => JsonValue | undefined> = [
    (name) => headers[name],
    (name) => inMeta(meta, name),
  ]
  for (const read of sources) {
    for (const role of ['intent', 'cart'] as const) {
      const value = read(names[role])
      if (value !== undefined) add(found, role, value)
    }
    const bundle = read(names.bundle)
    for (const [name, value] of bundle === undefined ? [] : Object.entries(bundleOf(bundle))) {
      const role = memberName.exec(name)?.[1]
      if (role === undefined) throw malformed('the bundle has a member that is not a mandate')
      add(found, role, value)
    }
  }
  return found
}

/**
 * @throws {MandateError} for a member that a program could read as the mandate, as unverified mandates are not
 * forwarded
 */
function inMeta(meta: JsonObject = {}, name: string): JsonValue | undefined {
  const [found, ...others] = membersLike(meta, name)
  if (found === undefined) return undefined
  if (found === name && others.length === 0) return meta[name]
  throw new MandateError(
    'ap2_mandate_conflict',
    `_meta has a member that differs from "${name}" only in case or form`,
  )
}

/** Whether an object is a bundle, and not a mandate of v0.1. */
export function isBundle(object: JsonObject): boolean {
  return Object.keys(object).some((name) => memberName.test(name))
}

function bundleOf(value: JsonValue): JsonObject {
  if (isJsonObject(value)) return value
  if (typeof value !== 'string' || value.length > MAX_BUNDLE) {
    throw malformed(`the bundle is not a JSON object of at most ${MAX_BUNDLE} characters`)
  }
  return objectOf(value.trim())
}

function add(found: Map<string, string | JsonObject>, role: string, value: JsonValue): void {
  if (typeof value !== 'string' && !isJsonObject(value))
    throw malformed('a mandate is neither text nor an object')
  const mandate = typeof value === 'string' ? value.trim() : value
  const before = found.get(role)
  if (before !== undefined && canonicalForm(before) !== canonicalForm(mandate)) {
    throw new MandateError('ap2_mandate_conflict', `two different mandates are given as ${role}`)
  }
  found.set(role, mandate)
}

/** The canonical text of an object that came as JSON, in base64url or in a bundle. */
function canonicalForm(value: string | JsonObject): string {
  if (typeof value !== 'string') return canonicalize(value)
  return /[.~]/.test(value) && !value.startsWith('{') ? value : canonicalize(objectOf(value))
}
