// The JSON Schema (draft 2020-12) of a whole policy file, for validation and completion in editors.

import { z } from 'zod'
import { defined } from '../json/defined.js'
import { isJsonObject } from '../json/parse-object.js'
import type { Plugin } from '../plugin/plugin.js'
import type { JsonSchema } from './describe-schema.js'
import { spellingsOf } from './spelling.js'

/**
 * Accepts what the loader accepts, in both spellings, with two exceptions: it does not refuse both spellings of one key
 * side by side, and it lacks the checks that plugins do in code. Values that only code can pass are left out.
 */
export function policySchema(
  host: z.ZodType,
  plugins: readonly Plugin[],
  required: readonly string[] = [],
): JsonSchema {
  const base = z.toJSONSchema(host, options)
  const sections = plugins.map((plugin) => [plugin.name, sectionSchema(plugin)] as const)
  const whole = {
    ...base,
    properties: { ...base.properties, ...Object.fromEntries(sections) },
    required: [...(base.required ?? []), ...required],
  }
  const { $schema, ...rest } = inBothSpellings(whole)
  return {
    ...defined({ $schema }),
    title: 'svc policy',
    description: 'The policy of a gateway.',
    ...rest,
  }
}

/** The schema of one section, in the schema's own spelling. */
function sectionSchema({ name, schema }: Plugin): JsonSchema {
  const { $schema: _, ...section } = z.toJSONSchema(schema, options)
  return { title: name, ...section }
}

const options = { io: 'input', unrepresentable: 'any', target: 'draft-2020-12' } as const

const fromEnvironment: JsonSchema = {
  type: 'string',
  pattern: '\\$\\{env:[A-Za-z_][A-Za-z0-9_]*\\}',
  description: 'Read from the environment.',
}

function inBothSpellings(schema: JsonSchema): JsonSchema {
  // Which values are entries that apply to some calls only is for tools of this project.
  const { properties, required, additionalProperties, items, anyOf, entry: _, setBy, ...rest } = schema
  if (
    rest.type === 'integer' ||
    rest.type === 'number' ||
    rest.type === 'boolean' ||
    rest.enum !== undefined
  ) {
    const { description, default: defaultValue, ...strict } = rest
    return {
      ...defined({ description, default: defaultValue }),
      anyOf: [strict, fromEnvironment],
    }
  }
  return {
    ...rest,
    ...(properties === undefined ? {} : { properties: spelled(properties) }),
    ...(required === undefined ? {} : requirement(required, setBy)),
    ...(typeof additionalProperties === 'object'
      ? { additionalProperties: inBothSpellings(additionalProperties) }
      : additionalProperties === undefined
        ? {}
        : { additionalProperties }),
    ...(typeof items === 'object' && !Array.isArray(items) ? { items: inBothSpellings(items) } : {}),
    ...(anyOf === undefined ? {} : { anyOf: fromFile(anyOf).map(inBothSpellings) }),
  }
}

function each(schema: JsonSchema | boolean): JsonSchema | boolean {
  return typeof schema === 'boolean' ? schema : inBothSpellings(schema)
}

function spelled(properties: Record<string, JsonSchema | boolean>): Record<string, JsonSchema | boolean> {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([key, schema]) => {
      const inner = each(schema)
      return spellingsOf(key).map((spelling) => [spelling, inner])
    }),
  )
}

/** A required key with two spellings becomes a choice of both; `setBy` are those that another key sets (`.meta()`). */
function requirement(required: readonly string[], setBy: unknown): JsonSchema {
  const setters = isJsonObject(setBy) ? Object.entries(setBy) : []
  const isAlways = (key: string) => !setters.some(([, keys]) => Array.isArray(keys) && keys.includes(key))
  const single = required.filter((key) => spellingsOf(key).length === 1 && isAlways(key))
  const alternatives = required.flatMap((key) => {
    const others = setters.flatMap(([setter, keys]) =>
      Array.isArray(keys) && keys.includes(key) ? setter : [],
    )
    const anyOf = [...spellingsOf(key), ...others].map((one) => ({ required: [one] }))
    return anyOf.length === 1 ? [] : [{ anyOf }]
  })
  return {
    ...(single.length === 0 ? {} : { required: single }),
    ...(alternatives.length === 0 ? {} : { allOf: alternatives }),
  }
}

/** Removes the alternatives without a type: functions and instances, which a file cannot contain. */
function fromFile(alternatives: readonly JsonSchema[]): JsonSchema[] {
  const typed = alternatives.filter((schema) => !isOpen(schema))
  return typed.length === 0 ? [...alternatives] : typed
}

function isOpen(schema: JsonSchema): boolean {
  return Object.keys(schema).every((key) => key === 'description' || key === 'title')
}
