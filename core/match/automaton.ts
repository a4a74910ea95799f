// Finds which of many strings occur in a text, in one pass (Aho and Corasick, 1975).

const NONE = -1

/** Immutable except for the marks of `find`, which is not reentrant. */
export class Automaton {
  /** Transitions in one open-addressed table: (state, UTF-16 unit) to state. State 0 is the root. */
  private readonly from: Int32Array
  private readonly unit: Uint16Array
  private readonly to: Int32Array
  private readonly mask: number
  /** The longest proper suffix of a state's string that is a state too. */
  private readonly fail: Int32Array
  /** The string that ends at a state, or NONE. */
  private readonly ends: Int32Array
  /** The next state on the suffix chain at which a string ends, or NONE. */
  private readonly next: Int32Array
  private readonly seen: Int32Array
  private search = 0

  /** @param strings distinct and not empty */
  constructor(strings: readonly string[]) {
    const maxStates = strings.reduce((sum, string) => sum + string.length, 1)
    const size = 2 ** Math.ceil(Math.log2(maxStates * 2 + 2))
    this.from = new Int32Array(size).fill(NONE)
    this.unit = new Uint16Array(size)
    this.to = new Int32Array(size)
    this.mask = size - 1
    this.fail = new Int32Array(maxStates)
    this.ends = new Int32Array(maxStates).fill(NONE)
    this.next = new Int32Array(maxStates).fill(NONE)
    this.seen = new Int32Array(maxStates)
    this.link(this.grow(strings))
  }

  /**
   * Calls `found` once for each string that occurs in `text`, with its index, until it returns true.
   * Linear in the text's length and the number of strings found.
   *
   * @returns whether `found` returned true
   */
  find(text: string, found: (string: number) => boolean): boolean {
    const search = this.nextSearch()
    let state = 0
    for (let i = 0; i < text.length; i++) {
      state = this.go(state, text.charCodeAt(i))
      let end = this.at(this.ends, state) === NONE ? this.at(this.next, state) : state
      // The chain of a state that was seen before has been visited.
      while (end !== NONE && this.at(this.seen, end) !== search) {
        this.seen[end] = search
        if (found(this.at(this.ends, end))) return true
        end = this.at(this.next, end)
      }
    }
    return false
  }

  private nextSearch(): number {
    if (this.search === 0x7fffffff) {
      this.seen.fill(0)
      this.search = 0
    }
    return ++this.search
  }

  /** The states in order of creation, as [parent, unit, depth]. */
  private grow(strings: readonly string[]): Array<readonly [number, number, number]> {
    const states: Array<readonly [number, number, number]> = [[NONE, 0, 0]]
    for (const [index, string] of strings.entries()) {
      let state = 0
      for (let i = 0; i < string.length; i++) {
        const unit = string.charCodeAt(i)
        const slot = this.slot(state, unit)
        if (this.at(this.from, slot) === NONE) {
          this.from[slot] = state
          this.unit[slot] = unit
          this.to[slot] = states.length
          states.push([state, unit, i + 1])
        }
        state = this.at(this.to, slot)
      }
      this.ends[state] = index
    }
    return states
  }

  /** Shorter strings first, since a state's suffixes are shorter than it. */
  private link(states: ReadonlyArray<readonly [number, number, number]>): void {
    const order = states
      .map((_, state) => state)
      .sort((a, b) => (states[a]?.[2] ?? 0) - (states[b]?.[2] ?? 0))
    for (const state of order) {
      const [parent, unit, depth] = states[state] ?? [0, 0, 0]
      if (depth === 0) continue
      const fail = depth === 1 ? 0 : this.go(this.at(this.fail, parent), unit)
      this.fail[state] = fail
      this.next[state] = this.at(this.ends, fail) === NONE ? this.at(this.next, fail) : fail
    }
  }

  private go(state: number, unit: number): number {
    for (let here = state; ; here = this.at(this.fail, here)) {
      const slot = this.slot(here, unit)
      if (this.at(this.from, slot) !== NONE) return this.at(this.to, slot)
      if (here === 0) return 0
    }
  }

  /** The slot of the transition, or the free slot for it. */
  private slot(state: number, unit: number): number {
    let hash = Math.imul(state, 0x9e3779b1) ^ Math.imul(unit, 0x85ebca6b)
    hash ^= hash >>> 15
    let slot = hash & this.mask
    for (;;) {
      const from = this.at(this.from, slot)
      if (from === NONE || (from === state && this.unit[slot] === unit)) return slot
      slot = (slot + 1) & this.mask
    }
  }

  private at(array: Int32Array, index: number): number {
    return array[index] ?? NONE
  }
}
