// Work on one thing, such as a value that is read, changed and stored, one after the other.

export class Turns {
  /** The last work of each thing. */
  #last = new Map<string, Promise<unknown>>()

  /** Runs `work` when the work on the same thing before it has ended, however it ended. */
  run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const running = this.#last.get(name) ?? Promise.resolve()
    const next = running.then(work, work)
    this.#last.set(name, next)
    const done = (): void => {
      if (this.#last.get(name) === next) this.#last.delete(name)
    }
    next.then(done, done)
    return next
  }
}
