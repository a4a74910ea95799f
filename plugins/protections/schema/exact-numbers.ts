// Numbers in schemas and values that no double represents. The validator reads JavaScript values and leaves symbols alone, so
// such a number is a symbol with its digits, and the keywords that judge numbers are these.
import {
  canonicalizeExact,
  compareNumbers,
  isMultipleOf,
  JsonNumber,
  type JsonObject,
  type JsonValue,
} from '@svc/core/json'
import type { Ajv } from 'ajv'

/** In place of a `type` with numbers, which the validator would check itself. */
const NUMERIC_TYPE = 'svc:type'

/** The schema with a keyword of this file for a type with numbers. */
export function withNumericType(schema: JsonObject): JsonObject {
  const { type, nullable, ...rest } = schema
  const types = [type ?? []].flat()
  if (!types.includes('number') && !types.includes('integer')) return schema
  return { ...rest, [NUMERIC_TYPE]: nullable === true ? [...types, 'null'] : types }
}

/** The keyword as the server wrote it. */
export function writtenKeyword(keyword: string): string {
  return keyword === NUMERIC_TYPE ? 'type' : keyword
}

/** Parsed JSON as the validator takes it: each number as a double, or as a symbol if no double represents it. */
export function withSymbols(value: JsonValue): unknown {
  if (value instanceof JsonNumber) return value.double ?? Symbol(value.canonical)
  return mapped(value, withSymbols)
}

/** Parsed JSON with the nearest double in place of each number. */
export function withDoubles(value: JsonValue): unknown {
  return value instanceof JsonNumber ? Number(value) : mapped(value, withDoubles)
}

function mapped(value: JsonValue, map: (member: JsonValue) => unknown): unknown {
  if (Array.isArray(value)) return value.map(map)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, map(member)]))
}

type Numeric = number | JsonNumber

function numericOf(value: unknown): Numeric | undefined {
  if (typeof value === 'symbol') return new JsonNumber(value.description ?? '')
  return typeof value === 'number' ? value : undefined
}

type Judge = (value: unknown) => boolean

const limits: Readonly<Record<string, (value: Numeric, limit: Numeric) => boolean>> = {
  minimum: (value, limit) => compareNumbers(value, limit) >= 0,
  maximum: (value, limit) => compareNumbers(value, limit) <= 0,
  exclusiveMinimum: (value, limit) => compareNumbers(value, limit) > 0,
  exclusiveMaximum: (value, limit) => compareNumbers(value, limit) < 0,
  multipleOf: isMultipleOf,
}

/** The validator with the keywords of this file in place of its own. */
export function withExactNumbers<Validator extends Ajv>(ajv: Validator): Validator {
  const add = (keyword: string, compile: (of: unknown) => Judge): void => {
    ajv.removeKeyword(keyword)
    ajv.addKeyword({ keyword, compile })
  }
  for (const [keyword, fits] of Object.entries(limits)) {
    add(keyword, (of) => {
      const limit = numericOf(of)
      return (given) => {
        const value = numericOf(given)
        return value === undefined || limit === undefined || fits(value, limit)
      }
    })
  }
  add(NUMERIC_TYPE, (types) => (value) => Array.isArray(types) && types.some((type) => isOfType(value, type)))
  add('const', (expected) => {
    const key = keyOf(expected)
    return (value) => keyOf(value) === key
  })
  add('enum', (values) => {
    const keys = new Set(Array.isArray(values) ? values.map(keyOf) : [])
    return (value) => keys.has(keyOf(value))
  })
  // The keyword of the library compares each two items.
  add(
    'uniqueItems',
    (isUnique) => (items) =>
      isUnique !== true || !Array.isArray(items) || new Set(items.map(keyOf)).size === items.length,
  )
  return ajv
}

function isOfType(value: unknown, type: unknown): boolean {
  const number = numericOf(value)
  if (number !== undefined) return type === 'number' || (type === 'integer' && isMultipleOf(number, 1))
  if (value === null) return type === 'null'
  return Array.isArray(value) ? type === 'array' : typeof value === type
}

/** Equal for equal JSON values. */
function keyOf(value: unknown): string {
  return typeof value === 'string' ? `"${value}` : canonicalizeExact(withNumbers(value)).text
}

function withNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNumbers)
  if (typeof value !== 'object' || value === null) return numericOf(value) ?? value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withNumbers(member)]))
}
