// A map with a limit on its entries, or on their sizes: beyond it, the entries that were set longest ago are removed.

/** The entries in the order in which they were last set. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  #limit: number
  #sizeOf: (value: Value) => number
  #used = 0

  /** `sizeOf` says what an entry takes of the limit; the same for the same value. */
  constructor(limit: number, sizeOf: (value: Value) => number = () => 1) {
    super()
    this.#limit = limit
    this.#sizeOf = sizeOf
  }

  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    this.#used += this.#sizeOf(value)
    for (const oldest of this.keys()) {
      if (this.#used <= this.#limit) break
      this.delete(oldest)
    }
    return this
  }

  override delete(key: Key): boolean {
    const value = this.get(key)
    if (value === undefined && !this.has(key)) return false
    this.#used -= this.#sizeOf(value as Value)
    return super.delete(key)
  }

  override clear(): void {
    super.clear()
    this.#used = 0
  }
}
