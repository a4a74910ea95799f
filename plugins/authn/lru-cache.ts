// A bounded cache that evicts approximately the least recently used entries, at the cost of one look-up.

/** Two generations: when the current one is full it becomes the previous one, whose unused entries are then dropped. */
export class LruCache<Value> {
  #generationSize: number
  #current = new Map<string, Value>()
  #previous = new Map<string, Value>()

  constructor(size: number) {
    this.#generationSize = Math.ceil(size / 2)
  }

  get(key: string): Value | undefined {
    const found = this.#current.get(key)
    if (found !== undefined) return found
    const previous = this.#previous.get(key)
    if (previous !== undefined) this.set(key, previous)
    return previous
  }

  set(key: string, value: Value): void {
    if (this.#generationSize === 0) return
    if (this.#current.size >= this.#generationSize && !this.#current.has(key)) {
      this.#previous = this.#current
      this.#current = new Map()
    }
    this.#current.set(key, value)
  }
}
