// A pattern as an automaton over the text of a subject. A state is a set of positions in the pattern, the bits of a
// number; it is numbered when it is first reached.
import type { Glob } from './glob.js'
import type { Pattern } from './pattern.js'

const STAR = Symbol('star')
/** A star in the name of the server, which holds no slash. */
const SERVER_STAR = Symbol('star of the server')
type GlobSign = string | typeof STAR | typeof SERVER_STAR

/** The state from which nothing is accepted. */
const DEAD = 0

export class GlobAutomaton {
  readonly start: number
  /** The literal characters of its names, in any order. */
  readonly characters: readonly string[]
  readonly #stars: bigint
  readonly #starsInPath: bigint
  readonly #literals = new Map<string, bigint>()
  readonly #end: bigint
  readonly #endStar: bigint
  readonly #states: bigint[] = [0n]
  readonly #numbers = new Map<bigint, number>([[0n, DEAD]])
  readonly #next: Map<string, number>[] = [new Map()]

  constructor(pattern: Pattern) {
    const signs: GlobSign[] =
      pattern.kind === 'whole'
        ? signsOf(pattern.text, STAR)
        : [...signsOf(pattern.server, SERVER_STAR), '/', ...signsOf(pattern.path, STAR)]
    const bitsWhere = (test: (sign: GlobSign) => boolean) =>
      signs.reduce((bits, sign, index) => (test(sign) ? bits | (1n << BigInt(index)) : bits), 0n)
    this.#stars = bitsWhere((sign) => typeof sign === 'symbol')
    this.#starsInPath = bitsWhere((sign) => sign === STAR)
    const literals = new Set(signs.filter((sign) => typeof sign === 'string'))
    for (const literal of literals)
      this.#literals.set(
        literal,
        bitsWhere((sign) => sign === literal),
      )
    this.#end = 1n << BigInt(signs.length)
    this.#endStar = signs.at(-1) === STAR ? this.#end >> 1n : 0n
    this.start = this.#numberOf(this.#closed(1n))
    this.characters = [...literals].filter((literal) => literal !== '/' && literal !== '@')
  }

  read(state: number, text: string): number {
    let reached = state
    for (const character of text) {
      if (reached === DEAD) return DEAD
      reached = this.#next[reached]?.get(character) ?? this.#step(reached, character)
    }
    return reached
  }

  isDead(state: number): boolean {
    return state === DEAD
  }

  accepts(state: number): boolean {
    return ((this.#states[state] ?? 0n) & this.#end) !== 0n
  }

  /** Whether it accepts the text with any continuation. */
  acceptsAll(state: number): boolean {
    return ((this.#states[state] ?? 0n) & this.#endStar) !== 0n
  }

  #step(state: number, character: string): number {
    const bits = this.#states[state] ?? 0n
    const literal = this.#literals.get(character) ?? 0n
    const stars = character === '/' ? this.#starsInPath : this.#stars
    const next = this.#numberOf(this.#closed(((bits & literal) << 1n) | (bits & stars)))
    this.#next[state]?.set(character, next)
    return next
  }

  #numberOf(bits: bigint): number {
    const known = this.#numbers.get(bits)
    if (known !== undefined) return known
    const number = this.#states.push(bits) - 1
    this.#numbers.set(bits, number)
    this.#next.push(new Map())
    return number
  }

  /** A star also matches the empty text. No two stars are neighbours. */
  #closed(bits: bigint): bigint {
    return bits | ((bits & this.#stars) << 1n)
  }
}

function signsOf(glob: Glob, star: GlobSign): GlobSign[] {
  return glob.flatMap((chunk, index) => (index === 0 ? [...chunk] : [star, ...chunk]))
}
