// The policy as a tree, the same for a YAML file and for an object of code, and the functions that read it.
import type { Origin } from './diagnostic.js'
import { type Secret, substitute } from './environment.js'
import { knownKey } from './spelling.js'

export type Env = Readonly<Record<string, string | undefined>> | 'none'

export interface MapEntry {
  readonly key: string
  readonly origin: Origin
  readonly node: PolicyNode
}

export interface MapNode {
  readonly kind: 'map'
  readonly origin: Origin
  readonly entries: readonly MapEntry[]
  /** The object that code passed: it may contain functions and instances. */
  readonly object?: unknown
}

interface ListNode {
  readonly kind: 'list'
  readonly origin: Origin
  readonly items: readonly PolicyNode[]
  readonly object?: unknown
}

/** A YAML scalar, or a value of code that is neither a plain object nor an array. */
interface ScalarNode {
  readonly kind: 'scalar'
  readonly origin: Origin
  readonly value: unknown
  /** The text of a number that no double represents. */
  readonly token?: string
  /** The position of a character of a text in its file, with its line and a caret. */
  readonly placeOf?: (index: number) => { readonly origin: Origin; readonly excerpt: string }
  /** True for a placeholder of a value that was already refused. */
  readonly isRefused?: true
}

export type PolicyNode = MapNode | ListNode | ScalarNode

/** The tree of an object of code. Children are created lazily, so values that no schema describes are not visited. */
export function nodeOf(value: unknown, file: string): PolicyNode {
  const origin = { file }
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value
    return {
      kind: 'list',
      origin,
      object: value,
      get items() {
        return items.map((item) => nodeOf(item, file))
      },
    }
  }
  if (isPlainObject(value)) {
    return {
      kind: 'map',
      origin,
      object: value,
      get entries() {
        return Object.entries(value)
          .filter(([, member]) => member !== undefined)
          .map(([key, member]) => ({ key, origin, node: nodeOf(member, file) }))
      },
    }
  }
  return { kind: 'scalar', origin, value }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** The path of a member: `a.b`, or `a["mcp://b"]` if the key is not a word. */
export function pathOfMember(parent: string, key: string): string {
  if (!/^[\w-]+$/.test(key)) return `${parent}[${JSON.stringify(key)}]`
  return parent === '' ? key : `${parent}.${key}`
}

/** A value of the policy and its position. For a missing value the node is undefined and the origin is its parent's. */
export interface Located {
  readonly origin: Origin
  /** The path as the author wrote it. */
  readonly path: string
  readonly node: PolicyNode | undefined
}

/** A member of a mapping, its key in any spelling, or an item of a list. */
export function childOf({ origin, path, node }: Located, key: string | number): Located {
  if (typeof key === 'number') {
    const item = node?.kind === 'list' ? node.items[key] : undefined
    return { origin: item?.origin ?? origin, path: `${path}[${key}]`, node: item }
  }
  const entries = node?.kind === 'map' ? node.entries : []
  const entry = entries.find((candidate) => knownKey(candidate.key, [key]) !== undefined)
  return { origin: entry?.origin ?? origin, path: pathOfMember(path, entry?.key ?? key), node: entry?.node }
}

/** The items of a list; empty for any other value. */
export function itemsOf(list: Located): Located[] {
  return list.node?.kind === 'list' ? list.node.items.map((_, index) => childOf(list, index)) : []
}

/** A string with the environment substituted; undefined for any other value. */
export function textOf({ node }: Located, env: Env): string | undefined {
  if (node?.kind !== 'scalar' || typeof node.value !== 'string') return undefined
  return substitute(node.value, env)?.value ?? node.value
}

/** The values substituted from the environment, at any depth. */
export function secretsOf(node: PolicyNode | undefined, env: Env): readonly Secret[] {
  if (node?.kind === 'map') return node.entries.flatMap((entry) => secretsOf(entry.node, env))
  if (node?.kind === 'list') return node.items.flatMap((item) => secretsOf(item, env))
  return typeof node?.value === 'string' ? (substitute(node.value, env)?.secrets ?? []) : []
}

/**
 * The members of a mapping by the known spelling of their keys; unknown keys as written. Of two spellings of one key
 * the first counts, and the other is passed to `onRepeated`.
 */
export function membersOf(
  map: MapNode,
  known: readonly string[],
  onRepeated: (entry: MapEntry, message: string) => void,
): Map<string, MapEntry> {
  const members = new Map<string, MapEntry>()
  for (const entry of map.entries) {
    const key = knownKey(entry.key, known) ?? entry.key
    const first = members.get(key)
    if (first === undefined) members.set(key, entry)
    else if (first.key !== entry.key) {
      onRepeated(entry, `given as "${first.key}" too; both spell the same key, give one`)
    }
  }
  return members
}
