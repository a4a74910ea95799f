// The values that name a waiting call for its reviewers: those that its rules read, then other short ones.
import { isJsonNumber, isJsonObject, JsonNumber, parseJsonContainer, sha256Hex } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import type { Escalation } from './service.js'

const MAX_VALUES = 3
/** Members that could be read as one, of which both are shown: the rule has no value. */
const MAX_ALIKE = 2
/** Characters of a name and of a value. */
const MAX_TEXT = 40
/** Other names could be read as a path, or as more than one value. */
const PLAIN_NAME = /^[\p{L}\p{M}\p{N}_-]+$/u

type ShownValues = NonNullable<Escalation['values']>
type Path = readonly (string | number)[]
type FindMembers = (object: Record<string, unknown>, name: string) => readonly string[]

interface Read {
  /** The names as the caller wrote them. */
  readonly written: Path
  /** Undefined where the path leads nowhere. */
  readonly value: unknown
}

/**
 * A caller may add arguments, and must not push out those that a rule is about, or write others that look like them. `input`
 * is as in `canonicalInput`, redacted for reviewers; the paths begin with `args` or `params`.
 */
export function shownValues(input: string, paths: readonly Path[]): ShownValues {
  const root = inputOf(input)
  const membersOf = memberFinder()
  const keys = paths.map(keyOf)
  const unique = paths.filter((path, at) => path.length > 1 && keys.indexOf(keyOf(path)) === at)
  const read = unique.flatMap((path) => {
    const found = readsAt({ written: [], value: root }, path, membersOf)
    const shown = found.flatMap(({ written, value }) => {
      const text = outlineOf(value)
      const name = nameOf(found.length === 1 ? path : written)
      return text === undefined ? [] : [{ name: cut(name), value: cut(text) }]
    })
    return shown.slice(0, MAX_ALIKE)
  })
  const args = isJsonObject(root['args']) ? root['args'] : {}
  const taken = new Set(
    paths.flatMap(([of, name, ...rest]) =>
      of === 'args' && typeof name === 'string' && rest.length === 0 ? membersOf(args, name) : [],
    ),
  )
  const isNumber = (one: readonly [string, unknown]) => isJsonNumber(one[1])
  const entries = Object.entries(args)
  const others = [...entries.filter(isNumber), ...entries.filter((one) => !isNumber(one))].flatMap(
    ([name, one]) => {
      const value = textOf(one)
      const isShort = value !== undefined && cut(value) === value && cut(name) === name
      return isShort && PLAIN_NAME.test(name) && !taken.has(name) ? [{ name, value }] : []
    },
  )
  return [...read, ...others].slice(0, MAX_VALUES)
}

/** Redaction may leave a text that is not JSON. */
function inputOf(text: string): Record<string, unknown> {
  const input: unknown = parseJsonContainer(text)
  if (!isJsonObject(input) || Object.keys(input).join() !== 'arguments,params') return { args: input }
  return { args: input['arguments'], params: input['params'] }
}

/** Finds members as rules do. The names of an object are folded once, as a caller may send ten thousand. */
function memberFinder(): FindMembers {
  const known = new Map<object, ReadonlyMap<string, readonly string[]>>()
  return (object, name) => {
    const members = known.get(object) ?? foldedNames(object)
    known.set(object, members)
    return members.get(foldName(name)) ?? []
  }
}

function foldedNames(object: object): ReadonlyMap<string, readonly string[]> {
  const members = new Map<string, string[]>()
  for (const name of Object.keys(object)) {
    const folded = foldName(name)
    const alike = members.get(folded)
    if (alike === undefined) members.set(folded, [name])
    else alike.push(name)
  }
  return members
}

/** More than one if members could be read as one. */
function readsAt({ written, value }: Read, [name, ...rest]: Path, membersOf: FindMembers): readonly Read[] {
  if (name === undefined) return [{ written, value }]
  const into = (one: string | number, inner: unknown) =>
    readsAt({ written: [...written, one], value: inner }, rest, membersOf)
  if (typeof name === 'number') return into(name, Array.isArray(value) ? value[name] : undefined)
  const names = isJsonObject(value) ? membersOf(value, name) : []
  if (!isJsonObject(value) || names.length === 0) return [{ written, value: undefined }]
  return names.flatMap((one) => into(one, value[one]))
}

/** Paths that read the same members have the same key. */
function keyOf(path: Path): string {
  return JSON.stringify(path.map((name) => (typeof name === 'string' ? foldName(name) : name)))
}

/** Undefined for a value that is not a text, a number or a boolean. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const isScalar = typeof value === 'boolean' || isJsonNumber(value)
  return isScalar ? String(value) : undefined
}

/** A list where a rule reads a number is shown too, so that another argument does not take its place. */
function outlineOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value instanceof JsonNumber) return textOf(value)
  return value === null ? 'null' : Array.isArray(value) ? '[…]' : '{…}'
}

/** `args.customer.id` is shown as `customer.id`. */
function nameOf([root, ...names]: Path): string {
  return (root === 'args' ? names : [root, ...names]).join('.')
}

/** Texts that differ where they are cut differ in the digits of their hash. */
function cut(text: string): string {
  if (text.length <= MAX_TEXT) return text
  return `${text.slice(0, 20).toWellFormed()}…${sha256Hex(text).slice(0, 8)}…${text.slice(-10).toWellFormed()}`
}
