// Leaves the event loop to those who append: while they do, the upload reads and hashes a piece and then
// rests, which keeps it to a few hundredths of the time. In quiet it goes as fast as it can.

const REST_MS = 8
const BUSY_FOR_MS = 100

export class Pace {
  readonly #monotonic: () => number
  #grewAt = Number.NEGATIVE_INFINITY
  // One queue for all files: several that rest by turns would together not rest at all.
  #turn: Promise<void> = Promise.resolve()

  /** `monotonic`: milliseconds. */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic
  }

  /** Records have become durable just now. */
  grew(): void {
    this.#grewAt = this.#monotonic()
  }

  /** Resolves when the next piece may be read. */
  rest(): Promise<void> {
    if (this.#monotonic() - this.#grewAt >= BUSY_FOR_MS) return Promise.resolve()
    this.#turn = this.#turn.then(() => new Promise((resolve) => setTimeout(resolve, REST_MS)))
    return this.#turn
  }
}
