// Describes what a schema accepts, for messages and for the policy reference.
import { z } from 'zod'

export type JsonSchema = z.core.JSONSchema.BaseSchema

/** A description such as `a whole number from 1 to 65535`, `observe or enforce`, `a list (each a string)`. */
export function describeSchema(schema: z.core.$ZodType): string {
  return describeJsonSchema(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }))
}

export function describeJsonSchema(schema: JsonSchema | boolean): string {
  if (typeof schema === 'boolean') return schema ? 'any value' : 'nothing'
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives !== undefined) return joined([...new Set(alternatives.map(describeJsonSchema))])
  if (schema.enum !== undefined) return joined(schema.enum.map(literal))
  if (schema.const !== undefined) return literal(schema.const)
  switch (schema.type) {
    case 'boolean':
      return 'true or false'
    case 'null':
      return 'null'
    case 'integer':
      return `a whole number${range(schema)}`
    case 'number':
      return `a number${range(schema)}`
    case 'string':
      return describeString(schema)
    case 'array':
      return describeList(schema)
    case 'object':
      return describeMapping(schema)
    default:
      return schema.description ?? 'another value'
  }
}

function range(schema: JsonSchema): string {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  const min = bounded(minimum) ? minimum : undefined
  const max = bounded(maximum) ? maximum : undefined
  if (min !== undefined && max !== undefined) return ` from ${min} to ${max}`
  const bounds = [
    ...(min === undefined ? [] : [`of at least ${min}`]),
    ...(bounded(exclusiveMinimum) ? [`above ${exclusiveMinimum}`] : []),
    ...(max === undefined ? [] : [`of at most ${max}`]),
    ...(bounded(exclusiveMaximum) ? [`below ${exclusiveMaximum}`] : []),
  ]
  return bounds.length === 0 ? '' : ` ${bounds.join(' and ')}`
}

/** Zod adds the range of safe integers to every integer, which is not a bound of the schema. */
function bounded(bound: number | boolean | undefined): bound is number {
  return typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER
}

function describeString(schema: JsonSchema): string {
  if (schema.format === 'uri') return 'a URL'
  if (schema.format !== undefined) return `a string (${schema.format})`
  if (schema.pattern !== undefined) return `a string that matches ${schema.pattern}`
  const { minLength, maxLength } = schema
  const min = minLength === undefined || minLength < 2 ? [] : [`at least ${minLength}`]
  const max = maxLength === undefined ? [] : [`at most ${maxLength}`]
  const length = [...min, ...max]
  if (length.length > 0) return `a string of ${length.join(' and ')} characters`
  return minLength === 1 ? 'a string that is not empty' : 'a string'
}

function describeList(schema: JsonSchema): string {
  const { items, minItems } = schema
  const each =
    typeof items === 'object' && !Array.isArray(items) ? ` (each ${describeJsonSchema(items)})` : ''
  return `${minItems === 1 ? 'a list of at least one entry' : 'a list'}${each}`
}

function describeMapping(schema: JsonSchema): string {
  const keys = Object.keys(schema.properties ?? {})
  if (keys.length > 0) return `a mapping with the keys ${keys.join(', ')}`
  if (typeof schema.additionalProperties === 'object') {
    return `a mapping (each value ${describeJsonSchema(schema.additionalProperties)})`
  }
  return 'a mapping'
}

function literal(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return value === '' ? 'an empty string' : value
}

function joined(words: readonly string[]): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
