// Checks that the arguments of a call equal the terms of its mandates. A bound term without a pointer is refused.
import {
  exactDouble,
  isJsonObject,
  JsonNumber,
  type JsonObject,
  type JsonValue,
  membersLike,
} from '@svc/core/json'
import { z } from 'zod'
import { MandateError } from '../mandate/error.js'
import { minorUnitsOf } from './money.js'
import type { Terms } from './signed-mandate.js'

const pointer = z
  .string()
  .regex(/^(\/([^~/]|~[01])*)*$/, 'expected a JSON pointer (RFC 6901), such as /order/total')

/** A pointer into the arguments, or the value for every call of the tool. */
const place = z.union([pointer, z.strictObject({ is: z.string().min(1) })])

const itemsPlace = z.union([
  pointer,
  z.strictObject({
    list: pointer.describe('The array of items.'),
    id: pointer.default('/id').describe("In an item: its id. An item may also be the id's text itself."),
    quantity: pointer.default('/quantity').describe('In an item: its quantity; 1 if it is absent.'),
  }),
])

export const bindingSchema = z
  .strictObject({
    total: pointer.optional().describe('JSON pointer to the total.'),
    totalUnit: z
      .enum(['minor', 'major'])
      .default('minor')
      .describe('Unit of the total: 1999 (`minor`) or 19.99 (`major`).'),
    currency: place.optional().describe('The currency (ISO 4217): a JSON pointer, or `{ is: USD }`.'),
    merchant: place.optional().describe("The merchant's id: a JSON pointer, or `{ is: … }`."),
    items: itemsPlace
      .optional()
      .describe('The items: a JSON pointer to the array, or `{ list, id, quantity }`.'),
    instrument: place
      .optional()
      .describe('The id of the payment instrument: a JSON pointer, or `{ is: … }`.'),
    pisp: place
      .optional()
      .describe('The domain of the payment initiation service: a JSON pointer, or `{ is: … }`.'),
    executionDate: place.optional().describe('The date of execution: a JSON pointer, or `{ is: … }`.'),
    checkoutHash: pointer
      .optional()
      .describe(
        'JSON pointer to the hash of the checkout that the call asserts; it must be the `transaction_id` of the payment mandate.',
      ),
    openCheckoutHash: pointer
      .optional()
      .describe(
        'JSON pointer to the hash of the open checkout mandate that the call asserts. With `role: payment`, the constraint `payment.reference` is compared with it.',
      ),
  })
  .describe(
    'Where the arguments have what mandates bound; a call is refused if a mandate bounds more, or if no mandate bounds one of these.',
  )

export type ArgumentBinding = z.output<typeof bindingSchema>
type Place = z.output<typeof place>

/**
 * RFC 6901 §4; undefined if nothing is there.
 *
 * @throws {MandateError} if a program could find another value there, or none
 */
export function valueAt(pointer: string, value: JsonValue): JsonValue | undefined {
  let current: JsonValue | undefined = value
  for (const escaped of pointer.split('/').slice(1)) {
    const name = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(current)) current = /^(0|[1-9]\d*)$/.test(name) ? current[Number(name)] : undefined
    else current = isJsonObject(current) ? memberOf(current, name, pointer) : undefined
  }
  return current
}

/** A program that matches names exactly would not find a name in another case, so only the exact name counts. */
function memberOf(object: JsonObject, name: string, pointer: string): JsonValue | undefined {
  const [found, ...others] = membersLike(object, name)
  if (found === undefined) return undefined
  if (found === name && others.length === 0) return object[name]
  throw new MandateError(
    'ap2_cart_mismatch',
    `a member at ${pointer} differs from that name only in case or form, and programs read it differently`,
  )
}

const texts = ['currency', 'merchant', 'instrument', 'pisp', 'executionDate'] as const
const names = ['total', ...texts, 'items', 'checkoutHash'] as const satisfies readonly (keyof Terms)[]

/**
 * Compares the arguments with the terms of all mandates of the call.
 *
 * @throws {MandateError} for the first term that the arguments lack or contradict, and for a pointer of `binding` that
 * no mandate bounds, so that leaving a mandate out allows nothing more
 */
export function checkArguments(
  mandates: readonly Terms[],
  args: JsonValue,
  binding: ArgumentBinding | undefined,
): void {
  for (const terms of mandates) checkTerms(terms, args, binding)
  const free = names.find(
    (name) => binding?.[name] !== undefined && mandates.every((terms) => terms[name] === undefined),
  )
  if (free !== undefined) {
    throw new MandateError(
      'ap2_cart_mismatch',
      `ap2.tools.bind has ${free}, and no mandate of the call bounds it`,
    )
  }
}

function checkTerms(terms: Terms, args: JsonValue, binding: ArgumentBinding | undefined): void {
  for (const name of texts) {
    const expected = terms[name]
    const place = binding?.[name]
    if (place === undefined && expected !== undefined && expected !== null) throw unbound(name)
    if (place === undefined || expected === undefined) continue
    if ((textAt(place, args) ?? null) !== expected) throw different(name)
  }
  if (terms.total !== undefined) {
    if (binding?.total === undefined) throw unbound('total')
    if (totalAt(binding, args, terms.currency ?? '') !== terms.total) throw different('total')
  }
  const { checkoutHash } = terms
  if (checkoutHash !== undefined && binding?.checkoutHash !== undefined) {
    if (valueAt(binding.checkoutHash, args) !== checkoutHash)
      throw new MandateError(
        'ap2_hash_mismatch',
        'transaction_id is not the checkout hash that the call asserts',
      )
  }
  if (terms.items !== undefined) {
    if (binding?.items === undefined) throw unbound('items')
    if (!isSameItems(itemsAt(binding.items, args), terms.items)) throw different('items')
  }
}

/**
 * The hash of the open checkout mandate that the call asserts; undefined without a place for it, and if the readings of the
 * tool's name have different ones.
 */
export function assertedOpenCheckout(
  bindings: Iterable<ArgumentBinding | undefined>,
  args: JsonValue,
): string | undefined {
  const [found, ...others] = new Set(
    Array.from(bindings, (binding) =>
      binding?.openCheckoutHash === undefined ? undefined : valueAt(binding.openCheckoutHash, args),
    ),
  )
  return typeof found === 'string' && found !== '' && others.length === 0 ? found : undefined
}

function textAt(place: Place, args: JsonValue): JsonValue | undefined {
  return typeof place === 'string' ? valueAt(place, args) : place.is
}

function totalAt(
  { total = '', totalUnit }: ArgumentBinding,
  args: JsonValue,
  currency: string,
): number | undefined {
  const found = valueAt(total, args)
  const value = found instanceof JsonNumber ? found.canonical : found
  if (typeof value !== 'number' && typeof value !== 'string') return undefined
  if (totalUnit === 'major') return minorUnitsOf(value, currency)
  return /^\d{1,15}$/.test(String(value)) ? Number(value) : undefined
}

function itemsAt(
  place: NonNullable<ArgumentBinding['items']>,
  args: JsonValue,
): ReadonlyMap<string, number> | undefined {
  const { list, id, quantity } =
    typeof place === 'string' ? { list: place, id: '/id', quantity: '/quantity' } : place
  const entries = valueAt(list, args)
  if (!Array.isArray(entries)) return undefined
  const items = new Map<string, number>()
  for (const entry of entries) {
    const isText = typeof entry === 'string'
    const name = isText ? entry : valueAt(id, entry)
    const given = (isText ? undefined : valueAt(quantity, entry)) ?? 1
    const count = exactDouble(given)
    if (typeof name !== 'string' || count === undefined || !Number.isSafeInteger(count) || count < 1) {
      return undefined
    }
    items.set(name, (items.get(name) ?? 0) + count)
  }
  return items
}

function isSameItems(
  found: ReadonlyMap<string, number> | undefined,
  expected: ReadonlyMap<string, number>,
): boolean {
  if (found?.size !== expected.size) return false
  return [...expected].every(([id, quantity]) => found.get(id) === quantity)
}

function unbound(name: keyof Terms): MandateError {
  return new MandateError(
    'ap2_cart_mismatch',
    `a mandate bounds ${name}, and ap2.tools.bind does not say where this tool's arguments have it`,
  )
}

function different(name: keyof Terms): MandateError {
  return new MandateError('ap2_cart_mismatch', `${name} is not what the mandate has`)
}
