// A map with a limit on its entries: beyond it, the entry that was set longest ago is removed.

/** The entries in the order in which they were last set. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  #maxEntries: number

  constructor(maxEntries: number) {
    super()
    this.#maxEntries = maxEntries
  }

  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size > this.#maxEntries) {
      for (const oldest of this.keys()) {
        this.delete(oldest)
        break
      }
    }
    return this
  }
}
