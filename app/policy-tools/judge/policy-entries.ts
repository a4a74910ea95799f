// The entries of a policy that apply to some calls only, such as rules, plans and patterns: values whose schema has the
// metadata `entry`.
import type { SectionEntry } from '@svc/core'
import { z } from 'zod'
import type { Policy } from '../../policy/config.js'

type Path = SectionEntry['path']

interface EntrySchema {
  readonly entry?: SectionEntry['kind']
  readonly properties?: Readonly<Record<string, EntrySchema>>
  readonly additionalProperties?: EntrySchema | boolean
  readonly items?: EntrySchema
  readonly anyOf?: readonly EntrySchema[]
}

export function policyEntries({ plugins, sections }: Pick<Policy, 'plugins' | 'sections'>): SectionEntry[] {
  return plugins.flatMap(({ name, schema }) => {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as EntrySchema
    return [...entriesIn(sections.get(name), json, [name])]
  })
}

function* entriesIn(value: unknown, schema: EntrySchema, path: Path): Generator<SectionEntry> {
  for (const one of schema.anyOf ?? []) yield* entriesIn(value, one, path)
  if (schema.entry !== undefined && value !== undefined)
    yield { kind: schema.entry, name: nameOf(value, path), path }
  if (Array.isArray(value)) {
    if (schema.items === undefined) return
    for (const [index, item] of value.entries()) yield* entriesIn(item, schema.items, [...path, index])
  } else if (typeof value === 'object' && value !== null) {
    const { properties = {}, additionalProperties: others } = schema
    for (const [key, member] of Object.entries(value)) {
      const own = Object.hasOwn(properties, key) ? properties[key] : others
      if (typeof own === 'object') yield* entriesIn(member, own, [...path, key])
    }
  }
}

/** A text is its own name, an object has a name or that of its key. */
function nameOf(value: unknown, path: Path): string {
  const named = typeof value === 'object' && value !== null && 'name' in value ? value.name : value
  return typeof named === 'string' ? named : String(path.at(-1))
}
