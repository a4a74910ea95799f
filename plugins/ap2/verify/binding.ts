// Where the arguments of a tool have what mandates bound (`ap2.tools.bind`).
import { type JsonObject, type JsonValue, membersLike } from '@svc/core/json'
import { z } from 'zod'
import { MandateFault } from '../mandate/fault.js'
import { isObject } from '../mandate/text.js'

const pointer = z
  .string()
  .regex(/^(\/([^~/]|~[01])*)*$/, 'expected a JSON pointer (RFC 6901), such as /order/total')

/** A place in the arguments, or the value that holds for every call of the tool. */
const place = z.union([pointer, z.strictObject({ is: z.string().min(1) })])

const itemsPlace = z.union([
  pointer,
  z.strictObject({
    list: pointer.describe('The array of items.'),
    id: pointer.default('/id').describe("In an item: its id. An item may also be the id's text itself."),
    quantity: pointer.default('/quantity').describe('In an item: its quantity; 1 where it is absent.'),
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
  })
  .describe(
    'Where the arguments have what mandates bound; a call is refused if a mandate bounds more, or if no mandate bounds one of these.',
  )

export type Binding = z.output<typeof bindingSchema>
export type Place = z.output<typeof place>

/**
 * RFC 6901 §4; undefined if nothing is there.
 *
 * @throws {MandateFault} if a program could find another value there, or none
 */
export function valueAt(pointer: string, value: JsonValue): JsonValue | undefined {
  let current: JsonValue | undefined = value
  for (const escaped of pointer.split('/').slice(1)) {
    const name = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(current)) current = /^(0|[1-9]\d*)$/.test(name) ? current[Number(name)] : undefined
    else current = isObject(current) ? memberOf(current, name, pointer) : undefined
  }
  return current
}

/** A program that matches names exactly would take one of another case to be absent, so only the exact name counts. */
function memberOf(object: JsonObject, name: string, pointer: string): JsonValue | undefined {
  const [found, ...others] = membersLike(object, name)
  if (found === undefined) return undefined
  if (found === name && others.length === 0) return object[name]
  throw new MandateFault(
    'ap2_cart_mismatch',
    `a member at ${pointer} differs from that name only in case or form, and programs read it differently`,
  )
}
