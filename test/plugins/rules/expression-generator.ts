// Random conditions and arguments, from a seed: every operator, function and macro, also where types do not fit.
import type { JsonValue } from '@svc/core/json'

/** Mulberry32: a small generator whose numbers follow from its seed. */
export function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const members = ['a', 'b', 'amount', 's', 'list', 'inner', 'constructor', '__proto__', 'Amount']
const binary = ['+', '-', '*', '/', '%', '<', '<=', '>', '>=', '==', '!=', 'in', '&&', '||']
const methods = ['contains', 'startsWith', 'endsWith']
const patterns = [
  '^a+$',
  '(a|aa)+b',
  '(a|b)*a(a|b){12}$',
  '[a-z]{1,90}x',
  '(\\\\p{L}\\\\p{N}?){1,30}$',
  '(?i)straße',
]
const macros = ['all', 'exists', 'exists_one', 'filter', 'map']
const literals = [
  '1',
  '0',
  '2.5',
  '-3',
  '9007199254740993',
  '"a"',
  '"é😀"',
  '""',
  'true',
  'false',
  'null',
  '[1, 2, 3]',
  '["a", "b"]',
]
const variables = [
  'vars.max',
  'vars.names',
  'vars.numbers',
  'vars.word',
  'caller.roles',
  'caller.sub',
  'claimed.agent',
  'call.time',
]

export class ExpressionGenerator {
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  condition(depth = 5): string {
    return this.#any(depth, [])
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)] as T
  }

  #any(depth: number, locals: readonly string[]): string {
    const leaf = () => this.#leaf(locals)
    if (depth <= 0) return leaf()
    const inner = () => this.#any(depth - 1 - Math.floor(this.#random() * 2), locals)
    switch (Math.floor(this.#random() * 14)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return `(${inner()} ${this.#pick(binary)} ${inner()})`
      case 4:
        return `!(${inner()})`
      case 5:
        return `(${inner()} ? ${inner()} : ${inner()})`
      case 6:
        return `${leaf()}.${this.#pick(methods)}(${leaf()})`
      case 7:
        return `${leaf()}.matches("${this.#pick(patterns)}")`
      case 8:
        return `size(${inner()})`
      case 9:
        return `has(args.${this.#member()}.${this.#member()})`
      case 10:
        return `${this.#pick(['string', 'int', 'double', 'dyn', 'type'])}(${inner()})`
      case 11:
      case 12:
        return this.#macro(depth, locals)
      default:
        return leaf()
    }
  }

  #macro(depth: number, locals: readonly string[]): string {
    const local = `x${locals.length}`
    const over = locals.length === 0 ? this.#path() : this.#pick(['vars.numbers', '[1, 2, 3]', 'vars.names'])
    return `${over}.${this.#pick(macros)}(${local}, ${this.#any(depth - 1, [...locals, local])})`
  }

  #leaf(locals: readonly string[]): string {
    const kind = this.#random()
    const [local] = locals.slice(-1)
    if (local !== undefined && kind < 0.4) return this.#random() < 0.5 ? local : `${local}.${this.#member()}`
    if (kind < 0.7) return this.#path()
    return kind < 0.85 ? this.#pick(literals) : this.#pick(variables)
  }

  #path(): string {
    const index = this.#random() < 0.2 ? '[0]' : ''
    return this.#random() < 0.7
      ? `args.${this.#member()}${index}`
      : `args.${this.#member()}.${this.#member()}`
  }

  #member(): string {
    return this.#pick(members)
  }

  /** Arguments of every shape; `large` ones are as large as a request may be. */
  arguments(large: boolean): JsonValue {
    const entries = members
      .filter(() => this.#random() < 0.7)
      .map((name) => [name, this.#value(large, 0)] as const)
    return Object.fromEntries(entries)
  }

  #value(large: boolean, depth: number): JsonValue {
    const scalars = [1, 0, -1, 2 ** 53, 1e308, 0.1, '', 'a', 'é😀', '5', true, false, null]
    const kind = Math.floor(this.#random() * 8)
    if (depth > 3 || kind < 4) return this.#pick(scalars)
    if (kind === 4) return large ? this.#pick(largeTexts) : 'ab'.repeat(Math.floor(this.#random() * 9))
    const size =
      large && this.#random() < 0.6 ? this.#pick([900, 1000, 1001, 20_000]) : Math.floor(this.#random() * 5)
    if (kind === 5) {
      const item = this.#value(large && size < 10, depth + 1)
      return Array.from({ length: size }, () => item)
    }
    const names =
      size < 10 ? members.slice(0, size) : Array.from({ length: Math.min(size, 9000) }, (_, at) => `é${at}`)
    return Object.fromEntries(names.map((name) => [name, this.#value(large && size < 10, depth + 1)]))
  }
}

const largeTexts = [
  'a'.repeat(1_000_000),
  'ab'.repeat(20_000),
  'aé'.repeat(2000),
  `${'a'.repeat(300)}b`,
  'x'.repeat(50_000),
]
