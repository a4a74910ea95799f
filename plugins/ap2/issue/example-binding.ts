// Derives a binding from the arguments of an example call, by the values of the purchase that they are for.
import { defined, isJsonObject, type JsonValue } from '@svc/core/json'
import { minorUnitsOf } from '../verify/money.js'
import type { Purchase } from './mandates.js'

/**
 * An entry of `ap2.tools.bind`. A term that the arguments lack is bound to its value, which then applies to every call.
 */
export type ExampleBinding = Readonly<Record<string, unknown>>

export function bindingFromExample(purchase: Purchase, args: JsonValue): ExampleBinding {
  const { total, currency, merchant, items, instrument } = purchase
  const isText = (text: string) => (value: JsonValue) => value === text
  const minor = find(args, (value) => isNumeric(value) && Number(value) === total)
  const major = find(args, (value) => isNumeric(value) && minorUnitsOf(value, currency) === total)
  const lines = itemsPlace(items, args)
  return {
    ...(minor !== undefined || major === undefined ? { total: minor } : { total: major, totalUnit: 'major' }),
    currency: find(args, isText(currency)) ?? { is: currency },
    merchant: find(args, isText(merchant.id)) ?? { is: merchant.id },
    ...defined({ items: lines }),
    instrument: find(args, isText(instrument.id)) ?? { is: instrument.id },
  }
}

function isNumeric(value: JsonValue): value is string | number {
  return typeof value === 'number' || (typeof value === 'string' && /^\d/.test(value))
}

/** The path of the first match, outermost first. */
function find(args: JsonValue, matches: (value: JsonValue) => boolean): string | undefined {
  const queue: (readonly [string, JsonValue])[] = [['', args]]
  for (const [pointer, value] of queue) {
    if (pointer !== '' && matches(value)) return pointer
    if (typeof value !== 'object' || value === null) continue
    for (const [name, member] of Object.entries(value)) queue.push([`${pointer}/${escaped(name)}`, member])
  }
  return undefined
}

function itemsPlace(items: Purchase['items'], args: JsonValue): object | undefined {
  const ids = items.map(({ id }) => id)
  const names = (entries: readonly JsonValue[]) =>
    entries.flatMap((entry) => (isJsonObject(entry) ? [entry] : []))
  let keys: { id: string; quantity?: string } | undefined
  const list = find(args, (value) => {
    if (!Array.isArray(value) || value.length !== ids.length) return false
    const entries = names(value)
    const [first = {}] = entries
    const id = Object.keys(first).find((key) => entries.every((entry, index) => entry[key] === ids[index]))
    if (entries.length !== ids.length || id === undefined) return false
    const quantity = Object.keys(first).find((key) =>
      entries.every((entry, index) => entry[key] === items[index]?.quantity),
    )
    keys = { id: `/${escaped(id)}`, ...(quantity === undefined ? {} : { quantity: `/${escaped(quantity)}` }) }
    return true
  })
  return list === undefined ? undefined : { list, ...keys }
}

/** RFC 6901 §3. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
