// Walks a part of the policy along its schema: brings keys to the schema's spelling, puts the environment
// in, finds unknown keys, and remembers where everything stands. Values are judged afterwards, by the schema.
import { z } from 'zod'
import { mistakeAt, type Origin } from './diagnostic.js'
import { type Secret, substitute } from './environment.js'
import { type MapEntry, type MapNode, type PolicyNode, pathOfMember } from './node.js'
import { catchallOf, keysOf, listedValues, scalarsOf, shapeOf, unwrapped } from './schema-kind.js'
import { knownKey, nearest, spellingsOf } from './spelling.js'
import type { Diagnostic } from './types.js'

type Schema = z.core.$ZodType
type Env = Readonly<Record<string, string | undefined>>
/** A path in the schema's spelling. */
export type SchemaPath = readonly PropertyKey[]

export interface Place {
  readonly origin: Origin
  /** As the author wrote it. */
  readonly path: string
  /** Set where the value is of no use and that was said: nothing more is said of it. */
  isFaulty?: boolean
  /** The text as it stands in the policy, where the environment was put into it. */
  template?: string
  /** The option of a union that the value is judged by. */
  option?: number
}

export class SectionReader {
  readonly mistakes: Diagnostic[] = []
  readonly secrets: Secret[] = []
  readonly #places = new Map<string, Place>()
  readonly #env: Env

  constructor(env: Env) {
    this.#env = env
  }

  /** What `schema` is to parse. */
  read(node: PolicyNode, schema: Schema, place: Place): unknown {
    return this.#read(node, schema, [], place)
  }

  /** Where the value at this path stands; undefined when the policy has none there. */
  placeOf(path: SchemaPath): Place | undefined {
    return this.#places.get(placeKey(path))
  }

  /** Also everything inside: for values that are mistaken in a way already told. */
  isFaulty(path: SchemaPath): boolean {
    return path.some((_, end) => this.placeOf(path.slice(0, end))?.isFaulty) || !!this.placeOf(path)?.isFaulty
  }

  #read(node: PolicyNode, schema: Schema, path: SchemaPath, place: Place): unknown {
    this.#places.set(placeKey(path), place)
    const inner = unwrapped(schema)
    if (inner instanceof z.core.$ZodUnion) {
      const index = optionFor(node, inner._zod.def.options)
      const option = inner._zod.def.options[index]
      if (option !== undefined) {
        place.option = index
        return this.#read(node, option, path, place)
      }
    }
    if (node.kind === 'map') {
      if (inner instanceof z.core.$ZodObject) return this.#object(node, inner, path, place)
      if (inner instanceof z.core.$ZodRecord) {
        const { valueType } = inner._zod.def
        return record(
          node.entries.map((entry) => [entry.key, this.#member(entry, entry.key, valueType, path, place)]),
        )
      }
    }
    if (node.kind === 'list') {
      const each = (item: PolicyNode, index: number, of: Schema) =>
        this.#read(item, of, [...path, index], { origin: item.origin, path: `${place.path}[${index}]` })
      if (inner instanceof z.core.$ZodArray) {
        const { element } = inner._zod.def
        return node.items.map((item, index) => each(item, index, element))
      }
      if (inner instanceof z.core.$ZodTuple) {
        const { items, rest } = inner._zod.def
        return node.items.map((item, index) => each(item, index, items[index] ?? rest ?? z.unknown()))
      }
    }
    if (inner instanceof z.core.$ZodNever) return null
    if (node.kind === 'scalar') {
      if (node.isRefused) place.isFaulty = true
      return this.#scalar(node.value, inner, place)
    }
    return this.#whole(node, place)
  }

  #object(node: MapNode, schema: z.core.$ZodObject, path: SchemaPath, place: Place): unknown {
    const { shape } = schema._zod.def
    const known = Object.keys(shape)
    const catchall = catchallOf(schema)
    const members: [string, unknown][] = []
    const spelled = new Map<string, string>()
    for (const entry of node.entries) {
      const key = knownKey(entry.key, known) ?? entry.key
      const before = spelled.get(key)
      const of = shape[key] ?? catchall
      if (before !== undefined) {
        if (before !== entry.key) this.#mistake(entry, place, bothSpellings(before))
      } else if (of === undefined) {
        this.#mistake(entry, place, unknownKey(entry.key, known))
      } else {
        members.push([key, this.#member(entry, key, of, path, place)])
      }
      spelled.set(key, entry.key)
    }
    return record(members)
  }

  #member(entry: MapEntry, key: string, schema: Schema, path: SchemaPath, parent: Place): unknown {
    const place = { origin: entry.origin, path: pathOfMember(parent.path, entry.key) }
    return this.#read(entry.node, schema, [...path, key], place)
  }

  #scalar(value: unknown, schema: Schema, place: Place): unknown {
    if (typeof value !== 'string') return value
    const found = substitute(value, this.#env)
    if (found === undefined) return value
    this.secrets.push(...found.secrets)
    place.template = found.template
    if (found.faults.length === 0) {
      const meant = converted(found.value, scalarsOf(schema))
      if (meant !== found.value) this.secrets.push({ value: String(meant), reference: found.template })
      return meant
    }
    place.isFaulty = true
    for (const fault of found.faults) this.mistakes.push(mistakeAt(place.origin, place.path, fault))
    return value
  }

  /** A list or mapping that no schema enters: code's own object as it is, a file's with the environment put in. */
  #whole(node: PolicyNode, place: Place): unknown {
    if (node.kind === 'scalar') return this.#scalar(node.value, z.unknown(), place)
    if (node.object !== undefined) return node.object
    if (node.kind === 'list') {
      return node.items.map((item, index) =>
        this.#whole(item, { origin: item.origin, path: `${place.path}[${index}]` }),
      )
    }
    return record(
      node.entries.map(({ key, origin, node: member }) => [
        key,
        this.#whole(member, { origin, path: pathOfMember(place.path, key) }),
      ]),
    )
  }

  #mistake(entry: MapEntry, parent: Place, message: string): void {
    this.mistakes.push(mistakeAt(entry.origin, pathOfMember(parent.path, entry.key), message))
  }
}

export function unknownKey(written: string, known: readonly string[]): string {
  if (known.length === 0) return 'unknown key; no key is accepted here'
  const meant = nearest(written, known)
  const hint = meant === undefined ? '' : `did you mean "${meant}"? `
  return `unknown key; ${hint}known keys: ${known.join(', ')}`
}

export function bothSpellings(first: string): string {
  return `given as "${first}" too; both spell the same key, give one`
}

function placeKey(path: SchemaPath): string {
  return path.map(String).join('\u0000')
}

/** Keys are own properties whatever they are called. */
function record(members: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(members)
}

function converted(value: string, wanted: ReadonlySet<string>): unknown {
  if (wanted.has('string')) return value
  if (wanted.has('number') && /^-?\d+(\.\d+)?$/.test(value)) return Number(value)
  if (wanted.has('boolean') && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

/** The option whose shape the node has; among mappings, the one that most of its keys and literals name. */
function optionFor(node: PolicyNode, options: readonly Schema[]): number {
  // Scalars need no spelling: the union itself judges them, and says all that it accepts.
  if (node.kind === 'scalar') return -1
  const fitting = options.flatMap((option, index) => (shapeOf(option) === node.kind ? [index] : []))
  if (fitting.length === 0 || node.kind === 'list') return fitting[0] ?? -1
  const scored = fitting.map((index) => ({ index, score: score(node, options[index]) }))
  return scored.reduce((best, other) => (other.score > best.score ? other : best)).index
}

function score(node: MapNode, option: Schema | undefined): number {
  if (option === undefined) return -1
  const inner = unwrapped(option)
  if (!(inner instanceof z.core.$ZodObject)) return 0
  const { shape } = inner._zod.def
  const known = keysOf(inner)
  return node.entries.reduce((sum, { key, node: member }) => {
    const meant = known.find((name) => spellingsOf(name).includes(key))
    const schema = meant === undefined ? undefined : shape[meant]
    if (schema === undefined) return sum
    const listed = listedValues(schema)
    return sum + 1 + (member.kind === 'scalar' && listed.includes(member.value) ? 100 : 0)
  }, 0)
}
