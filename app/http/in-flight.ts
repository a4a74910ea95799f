// What is still running, and a wait until nothing is.

export class InFlight<T> implements Iterable<T> {
  #running = new Set<T>()
  #onIdle: (() => void) | undefined

  add(one: T): void {
    this.#running.add(one)
  }

  delete(one: T): void {
    this.#running.delete(one)
    if (this.#running.size === 0) this.#onIdle?.()
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#running.values()
  }

  /** Resolves when nothing runs, at the latest after `withinMs`. */
  idle(withinMs: number): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve()
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
