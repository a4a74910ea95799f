// Finds the mandates that a call presents: in two headers, in a bundle, and over MCP in `params._meta`.
import type { IncomingHttpHeaders } from 'node:http'
import { canonicalize, type JsonObject, type JsonValue, membersLike } from '@svc/core/json'
import { MandateFault, malformed } from '../mandate/fault.js'
import { isObject } from '../mandate/text.js'
import { MAX_MANDATE, objectOf } from './parse.js'

export interface HeaderNames {
  readonly intent: string
  readonly cart: string
  readonly bundle: string
}

/** Members of a bundle, with the other name that each may have. */
const members: Readonly<Record<string, string>> = {
  intent: 'intent',
  intentMandate: 'intent',
  cart: 'cart',
  cartMandate: 'cart',
  payment: 'payment',
  paymentMandate: 'payment',
  checkout: 'checkout',
  checkoutMandate: 'checkout',
  openCheckout: 'openCheckout',
  openCheckoutMandate: 'openCheckout',
  openPayment: 'openPayment',
  openPaymentMandate: 'openPayment',
}

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
      const role = Object.hasOwn(members, name) ? members[name] : undefined
      if (role === undefined) throw malformed('the bundle has a member that is no mandate')
      add(found, role, value)
    }
  }
  return found
}

/** @throws {MandateFault} for a member that a program could take for it, as mandates that are not verified stay here */
function inMeta(meta: JsonObject = {}, name: string): JsonValue | undefined {
  const [found, ...others] = membersLike(meta, name)
  if (found === undefined) return undefined
  if (found === name && others.length === 0) return meta[name]
  throw new MandateFault(
    'ap2_mandate_conflict',
    `_meta has a member that differs from "${name}" only in case or form`,
  )
}

/** Whether an object is a bundle, and not a mandate of v0.1. */
export function isBundle(object: JsonObject): boolean {
  return Object.keys(object).some((name) => Object.hasOwn(members, name))
}

function bundleOf(value: JsonValue): JsonObject {
  if (isObject(value)) return value
  if (typeof value !== 'string' || value.length > MAX_BUNDLE) {
    throw malformed(`the bundle is not a JSON object of at most ${MAX_BUNDLE} characters`)
  }
  return objectOf(value.trim())
}

function add(found: Map<string, string | JsonObject>, role: string, value: JsonValue): void {
  if (typeof value !== 'string' && !isObject(value))
    throw malformed('a mandate is neither text nor an object')
  const mandate = typeof value === 'string' ? value.trim() : value
  const before = found.get(role)
  if (before !== undefined && canonicalForm(before) !== canonicalForm(mandate)) {
    throw new MandateFault('ap2_mandate_conflict', `two different mandates are given as ${role}`)
  }
  found.set(role, mandate)
}

/** One text for an object, whether it came as JSON, in base64url or in a bundle. */
function canonicalForm(value: string | JsonObject): string {
  if (typeof value !== 'string') return canonicalize(value)
  return /[.~]/.test(value) && !value.startsWith('{') ? value : canonicalize(objectOf(value))
}
