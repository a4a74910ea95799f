// Lists the keys of a section for the policy reference.
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { describeJsonSchema, type JsonSchema } from './describe-schema.js'

export interface KeyReference {
  /**
   * The path within the section: `oidc.issuer`; `<name>` is a key that the author chooses, `[]` each entry of a list.
   */
  readonly path: string
  /** A description of what it accepts. */
  readonly accepts: string
  readonly isRequired: boolean
  /** The default as JSON; undefined if there is none. */
  readonly default?: string
  readonly description: string
}

/** Every key of a schema, in its order, mappings before their members. */
export function keysReference(schema: z.ZodType): KeyReference[] {
  return below(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }), '')
}

function below(schema: JsonSchema, path: string): KeyReference[] {
  const listed = Object.entries(schema.properties ?? {}).flatMap(([key, inner]) => {
    if (typeof inner === 'boolean') return []
    return described(inner, path === '' ? key : `${path}.${key}`, schema.required?.includes(key) === true)
  })
  const free = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
  const dynamic = free === undefined ? [] : described(free, path === '' ? '<name>' : `${path}.<name>`, false)
  const items = entriesOf(schema)
  const each = items === undefined ? [] : below(items, `${path}[]`)
  // The keys of one mapping or several in a list are the same.
  const alternatives = (schema.anyOf ?? []).filter(
    (one) => !schema.anyOf?.some((other) => isListOf(one, other)),
  )
  return [...listed, ...dynamic, ...each, ...alternatives.flatMap((one) => below(one, path))]
}

function entriesOf({ items }: JsonSchema): JsonSchema | undefined {
  return typeof items === 'object' && !Array.isArray(items) ? items : undefined
}

function isListOf(list: JsonSchema, mapping: JsonSchema): boolean {
  return mapping.type === 'object' && isDeepStrictEqual(entriesOf(list), mapping)
}

function described(schema: JsonSchema, path: string, isRequired: boolean): KeyReference[] {
  const key: KeyReference = {
    path,
    accepts: describeShort(schema),
    isRequired,
    ...(schema.default === undefined ? {} : { default: JSON.stringify(schema.default) }),
    description: schema.description ?? '',
  }
  return [key, ...below(schema, path)]
}

/** The description without the keys of a mapping, which have rows of their own. */
function describeShort(schema: JsonSchema): string {
  if (schema.type === 'object') return 'a mapping'
  if (entriesOf(schema)?.type === 'object') return 'a list of mappings'
  const [mapping, list] = schema.anyOf ?? []
  if (mapping !== undefined && list !== undefined && isListOf(list, mapping))
    return 'a mapping or a list of mappings'
  return describeJsonSchema(schema)
}
