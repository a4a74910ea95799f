// The set of things in progress, and a wait until it is empty.
//
// Not a Set: a Set with constant insertion and removal allocates new tables again and again, and a dead table in the
// garbage collector's old generation keeps its entries and all later tables alive. Every call would live until the
// next full collection.

export class InFlight<T> implements Iterable<T> {
  #places: (T | undefined)[] = []
  #free: number[] = []
  #onIdle: (() => void) | undefined

  /** Returns the place by which `delete` finds it. */
  add(one: T): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = one
    return place
  }

  /** To be called once for each `add`. */
  delete(place: number): void {
    this.#places[place] = undefined
    this.#free.push(place)
    if (this.#onIdle !== undefined && this.#size === 0) this.#onIdle()
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const one of this.#places) if (one !== undefined) yield one
  }

  get #size(): number {
    return this.#places.length - this.#free.length
  }

  /** Resolves when it is empty, or after `withinMs`. */
  idle(withinMs: number): Promise<void> {
    if (this.#size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs)
      this.#onIdle = () => {
        clearTimeout(timer)
        this.#onIdle = undefined
        resolve()
      }
    })
  }
}
