// One tree for what a policy file says and for what code passes, so that both are judged by the same walk.
import type { Origin } from './diagnostic.js'

export interface MapEntry {
  readonly key: string
  readonly origin: Origin
  readonly node: PolicyNode
}

export interface MapNode {
  readonly kind: 'map'
  readonly origin: Origin
  readonly entries: readonly MapEntry[]
  /** The object that code passed, itself: it may hold functions and instances. */
  readonly object?: unknown
}

interface ListNode {
  readonly kind: 'list'
  readonly origin: Origin
  readonly items: readonly PolicyNode[]
  readonly object?: unknown
}

/** A YAML scalar, or anything of code's that is neither a plain object nor an array. */
interface ScalarNode {
  readonly kind: 'scalar'
  readonly origin: Origin
  readonly value: unknown
  /** What stands here was refused already, and the value stands in for it. */
  readonly isRefused?: true
}

export type PolicyNode = MapNode | ListNode | ScalarNode

/** The tree over an object of code's. Children are made when asked for: what no schema enters is not walked. */
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

/** The path of a member, as a person would write it: `a.b`, or `a["mcp://b"]` where the key is no word. */
export function pathOfMember(parent: string, key: string): string {
  if (!/^[\w-]+$/.test(key)) return `${parent}[${JSON.stringify(key)}]`
  return parent === '' ? key : `${parent}.${key}`
}
