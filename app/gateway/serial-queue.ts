// Runs tasks one after the other.

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs `task` after those before it, however they end. */
  run<T>(task: () => Promise<T>): Promise<T> {
    const running = this.#last.then(task)
    // The caller gets the error; the next task does not.
    this.#last = running.catch(() => undefined)
    return running
  }

  /** Resolves when every task has ended. */
  async idle(): Promise<void> {
    await this.#last
  }
}
