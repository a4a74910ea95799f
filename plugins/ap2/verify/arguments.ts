// Whether the arguments of a call are what its mandates bound. What no pointer names is never passed unread.
import type { JsonValue } from '@svc/core/json'
import { MandateFault } from '../mandate/fault.js'
import { type Binding, type Place, valueAt } from './binding.js'
import { minorUnitsOf } from './money.js'
import type { TermName, Terms } from './terms.js'

const texts = ['currency', 'merchant', 'instrument', 'pisp', 'executionDate'] as const
const names = ['total', ...texts, 'items'] as const satisfies readonly TermName[]

/**
 * Compares the arguments with the terms of all mandates of the call.
 *
 * @throws {MandateFault} for the first term that the arguments do not have, or have otherwise; and for a place in
 *   `binding` that no mandate bounds, as leaving a mandate out frees nothing
 */
export function checkArguments(
  mandates: readonly Terms[],
  args: JsonValue,
  binding: Binding | undefined,
): void {
  for (const terms of mandates) checkTerms(terms, args, binding)
  const free = names.find(
    (name) => binding?.[name] !== undefined && mandates.every((terms) => terms[name] === undefined),
  )
  if (free !== undefined) {
    throw new MandateFault(
      'ap2_cart_mismatch',
      `ap2.tools.bind has ${free}, and no mandate of the call bounds it`,
    )
  }
}

function checkTerms(terms: Terms, args: JsonValue, binding: Binding | undefined): void {
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
  if (terms.items !== undefined) {
    if (binding?.items === undefined) throw unbound('items')
    if (!isSameItems(itemsAt(binding.items, args), terms.items)) throw different('items')
  }
}

function textAt(place: Place, args: JsonValue): JsonValue | undefined {
  return typeof place === 'string' ? valueAt(place, args) : place.is
}

function totalAt({ total = '', totalUnit }: Binding, args: JsonValue, currency: string): number | undefined {
  const value = valueAt(total, args)
  if (typeof value !== 'number' && typeof value !== 'string') return undefined
  if (totalUnit === 'major') return minorUnitsOf(value, currency)
  return /^\d{1,15}$/.test(String(value)) ? Number(value) : undefined
}

function itemsAt(
  place: NonNullable<Binding['items']>,
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
    const count = (isText ? undefined : valueAt(quantity, entry)) ?? 1
    if (typeof name !== 'string' || typeof count !== 'number' || !Number.isSafeInteger(count) || count < 1) {
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

function unbound(name: TermName): MandateFault {
  return new MandateFault(
    'ap2_cart_mismatch',
    `a mandate bounds ${name}, and ap2.tools.bind does not say where this tool's arguments have it`,
  )
}

function different(name: TermName): MandateFault {
  return new MandateFault('ap2_cart_mismatch', `${name} is not what the mandate has`)
}
