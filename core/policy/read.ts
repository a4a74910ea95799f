// Reads a section of the policy along its schema: converts keys to the schema's spelling, substitutes the environment,
// reports unknown keys, and records the position of each value. The schema validates the values afterwards.
import { z } from 'zod'
import { JsonNumber } from '../json/text.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { type Secret, substitute } from './environment.js'
import { type Env, type MapEntry, type MapNode, membersOf, type PolicyNode, pathOfMember } from './node.js'
import {
  catchallOf,
  keysOf,
  listedValues,
  nodeKindOf,
  type Schema,
  scalarsOf,
  unwrapped,
} from './schema-kind.js'
import { knownKey, nearest } from './spelling.js'
import type { Diagnostic } from './types.js'

/** A path in the schema's spelling. */
export type SchemaPath = readonly PropertyKey[]

/** The position of a value, and how it was read. */
export interface Position {
  readonly origin: Origin
  /** The path as the author wrote it. */
  readonly path: string
  /** The value is invalid and was reported: no further mistake is reported for it. */
  hasErrors?: boolean
  /** The text before substitution, if the value has references to the environment. */
  template?: string
  /** Index of the union's option that the value is validated by. */
  option?: number
}

export class SectionReader {
  readonly mistakes: Diagnostic[] = []
  readonly secrets: Secret[] = []
  readonly #positions = new Map<string, Position>()
  readonly #env: Env

  constructor(env: Env) {
    this.#env = env
  }

  /** The input for `schema`. */
  read(node: PolicyNode, schema: Schema, position: Position): unknown {
    return this.#read(node, schema, [], position)
  }

  /** The position of the value at this path; undefined if the policy has none. */
  positionOf(path: SchemaPath): Position | undefined {
    return this.#positions.get(positionKey(path))
  }

  /** Whether the value at this path, or one that contains it, is invalid and was reported. */
  hasErrors(path: SchemaPath): boolean {
    return (
      path.some((_, end) => this.positionOf(path.slice(0, end))?.hasErrors) ||
      !!this.positionOf(path)?.hasErrors
    )
  }

  #read(node: PolicyNode, schema: Schema, path: SchemaPath, position: Position): unknown {
    this.#positions.set(positionKey(path), position)
    const inner = unwrapped(schema)
    if (inner instanceof z.core.$ZodUnion) {
      const index = optionFor(node, inner._zod.def.options)
      const option = inner._zod.def.options[index]
      if (option !== undefined) {
        position.option = index
        return this.#read(node, option, path, position)
      }
    }
    if (node.kind === 'map') {
      if (inner instanceof z.core.$ZodObject) return this.#object(node, inner, path, position)
      if (inner instanceof z.core.$ZodRecord) {
        const { valueType } = inner._zod.def
        return record(
          node.entries.map((entry) => [entry.key, this.#member(entry, entry.key, valueType, path, position)]),
        )
      }
    }
    if (node.kind === 'list') {
      const each = (item: PolicyNode, index: number, of: Schema) =>
        this.#read(item, of, [...path, index], { origin: item.origin, path: `${position.path}[${index}]` })
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
      if (node.isRefused) position.hasErrors = true
      return this.#scalar(node.value, inner, position)
    }
    return this.#whole(node, position)
  }

  #object(node: MapNode, schema: z.core.$ZodObject, path: SchemaPath, position: Position): unknown {
    const { shape } = schema._zod.def
    const known = Object.keys(shape)
    const catchall = catchallOf(schema)
    const members: [string, unknown][] = []
    const found = membersOf(node, known, (entry, message) => this.#mistake(entry, position, message))
    for (const [key, entry] of found) {
      const of = shape[key] ?? catchall
      if (of === undefined) this.#mistake(entry, position, unknownKey(entry.key, known))
      else members.push([key, this.#member(entry, key, of, path, position)])
    }
    return record(members)
  }

  #member(entry: MapEntry, key: string, schema: Schema, path: SchemaPath, parent: Position): unknown {
    const position = { origin: entry.origin, path: pathOfMember(parent.path, entry.key) }
    return this.#read(entry.node, schema, [...path, key], position)
  }

  #scalar(value: unknown, schema: Schema, position: Position): unknown {
    if (typeof value !== 'string') return value
    const found = substitute(value, this.#env)
    if (found === undefined) return value
    this.secrets.push(...found.secrets)
    position.template = found.template
    if (found.errors.length === 0) {
      const result = converted(found.value, scalarsOf(schema))
      if (result !== found.value) this.secrets.push({ value: String(result), reference: found.template })
      return result
    }
    position.hasErrors = true
    for (const error of found.errors) this.mistakes.push(mistakeAt(position.origin, position.path, error))
    return value
  }

  /** A list or mapping without a schema: an object of code unchanged, a file's with the environment substituted. */
  #whole(node: PolicyNode, position: Position): unknown {
    if (node.kind === 'scalar')
      return node.token === undefined
        ? this.#scalar(node.value, z.unknown(), position)
        : new JsonNumber(node.token)
    if (node.object !== undefined) return node.object
    if (node.kind === 'list') {
      return node.items.map((item, index) =>
        this.#whole(item, { origin: item.origin, path: `${position.path}[${index}]` }),
      )
    }
    return record(
      node.entries.map(({ key, origin, node: member }) => [
        key,
        this.#whole(member, { origin, path: pathOfMember(position.path, key) }),
      ]),
    )
  }

  #mistake(entry: MapEntry, parent: Position, message: string): void {
    this.mistakes.push(mistakeAt(entry.origin, pathOfMember(parent.path, entry.key), message))
  }
}

export function unknownKey(written: string, known: readonly string[]): string {
  if (known.length === 0) return 'unknown key; no key is accepted here'
  const similar = nearest(written, known)
  const hint = similar === undefined ? '' : `did you mean "${similar}"? `
  return `unknown key; ${hint}known keys: ${known.join(', ')}`
}

function positionKey(path: SchemaPath): string {
  return path.map(String).join('\u0000')
}

/** Every key becomes an own property, even `__proto__`. */
function record(members: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(members)
}

function converted(value: string, types: ReadonlySet<string>): unknown {
  if (types.has('string')) return value
  if (types.has('number') && /^-?\d+(\.\d+)?$/.test(value)) return Number(value)
  if (types.has('boolean') && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

/** The option with the shape of the node; of several mappings the one that shares the most keys and literals. */
function optionFor(node: PolicyNode, options: readonly Schema[]): number {
  // Scalars have no keys to convert; the union itself reports everything that it accepts.
  if (node.kind === 'scalar') return -1
  const fitting = options.flatMap((option, index) => (nodeKindOf(option) === node.kind ? [index] : []))
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
    const name = knownKey(key, known)
    const schema = name === undefined ? undefined : shape[name]
    if (schema === undefined) return sum
    const listed = listedValues(schema)
    return sum + 1 + (member.kind === 'scalar' && listed.includes(member.value) ? 100 : 0)
  }, 0)
}
