// What is still running, and a wait until nothing is.
//
// Not a Set: one that things pass through makes itself a new table again and again, and a dead table that the
// garbage collector has moved to its old policy keeps alive what it held and all tables after it. Every
// call of the gateway would live until the next full collection.

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

  /** Once for each `add`. */
  delete(place: number): void {
    this.#places[place] = undefined
    this.#free.push(place)
    if (this.#size === 0) this.#onIdle?.()
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const one of this.#places) if (one !== undefined) yield one
  }

  get #size(): number {
    return this.#places.length - this.#free.length
  }

  /** Resolves when nothing runs, at the latest after `withinMs`. */
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
