// Watches whether the event loop of a worker turns: the main process asks the worker once a second. It counts its own
// questions and not the time, so that seconds in which the main process itself does not run do not count.

const intervalMs = 1_000
/** Intervals without a response after which a worker is late: it gets no connections until it responds. */
const lateAfter = 2
/** Intervals without a response after which it hangs. */
const hungAfter = 10

interface LivenessParts {
  /** Resolves when the worker responds. */
  ask(): Promise<void>
  /** It has become late, or responds again. */
  onChange(): void
  /** It has not responded for `seconds`. Called once a second as long as that is so. */
  onHung(seconds: number): void
}

export class Liveness {
  #parts: LivenessParts
  #timer: NodeJS.Timeout
  /** Intervals since the question that has no response yet. */
  #silent = 0
  #isWaiting = false

  constructor(parts: LivenessParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#tick(), intervalMs)
  }

  get isLate(): boolean {
    return this.#silent >= lateAfter
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    if (!this.#isWaiting) {
      this.#isWaiting = true
      // A worker that has ended needs no question.
      this.#parts.ask().then(
        () => this.#responded(),
        () => this.stop(),
      )
      return
    }
    this.#silent++
    if (this.#silent === lateAfter) this.#parts.onChange()
    if (this.#silent >= hungAfter) this.#parts.onHung((this.#silent * intervalMs) / 1_000)
  }

  #responded(): void {
    const wasLate = this.isLate
    this.#isWaiting = false
    this.#silent = 0
    if (wasLate) this.#parts.onChange()
  }
}
