// A map that forgets: bounded, and nearly least-recently-used at the price of one look-up.

/** A full young generation becomes the old one, whose entries are forgotten unless they are asked for again. */
export class Generations<Value> {
  #half: number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()

  constructor(size: number) {
    this.#half = Math.ceil(size / 2)
  }

  get(key: string): Value | undefined {
    const found = this.#young.get(key)
    if (found !== undefined) return found
    const kept = this.#old.get(key)
    if (kept !== undefined) this.set(key, kept)
    return kept
  }

  set(key: string, value: Value): void {
    if (this.#half === 0) return
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }
}
