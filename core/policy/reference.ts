// The keys of a section, one by one, as the policy reference lists them.
import { z } from 'zod'
import { inWords } from './accepted.js'

type JsonSchema = z.core.JSONSchema.BaseSchema

export interface KeyReference {
  /** Below the section: `oidc.issuer`; `<name>` stands for a key of the author's own, `[]` for each entry. */
  readonly path: string
  /** What it accepts, in words. */
  readonly accepts: string
  readonly isRequired: boolean
  /** As JSON; undefined where there is none. */
  readonly standard?: string
  readonly description: string
  /** False for a part that a later release brings. */
  readonly isAvailable: boolean
}

/** Every key that a schema reads, in its order, mappings before what they hold. */
export function keysReference(schema: z.ZodType): KeyReference[] {
  return below(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }), '')
}

function below(schema: JsonSchema, path: string): KeyReference[] {
  const named = Object.entries(schema.properties ?? {}).flatMap(([key, inner]) => {
    if (typeof inner === 'boolean') return []
    return described(inner, path === '' ? key : `${path}.${key}`, schema.required?.includes(key) === true)
  })
  const free = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
  const others = free === undefined ? [] : described(free, path === '' ? '<name>' : `${path}.<name>`, false)
  const { items } = schema
  const each = typeof items === 'object' && !Array.isArray(items) ? below(items, `${path}[]`) : []
  return [...named, ...others, ...each, ...(schema.anyOf ?? []).flatMap((one) => below(one, path))]
}

function described(schema: JsonSchema, path: string, isRequired: boolean): KeyReference[] {
  const isAvailable = schema.not === undefined
  const key: KeyReference = {
    path,
    accepts: isAvailable ? shortly(schema) : '',
    isRequired,
    ...(schema.default === undefined ? {} : { standard: JSON.stringify(schema.default) }),
    description: schema.description ?? '',
    isAvailable,
  }
  return [key, ...below(schema, path)]
}

/** The keys of a mapping have lines of their own. */
function shortly(schema: JsonSchema): string {
  if (schema.type === 'object') return 'a mapping'
  const { items } = schema
  if (typeof items === 'object' && !Array.isArray(items) && items.type === 'object')
    return 'a list of mappings'
  return inWords(schema)
}
