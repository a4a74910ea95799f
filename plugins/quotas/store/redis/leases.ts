// Batches of calls taken from the store in advance, so that most calls need no round trip.

export interface Batch {
  /** How many calls were taken; 0 where the store refused. */
  readonly taken: number
  /** The store's answer: tokens left, or the count including the whole batch. */
  readonly level: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Called with the number of unused calls when the batch ends. */
  readonly unused?: (left: number) => void
}

interface Held {
  readonly batch: Batch
  /** Milliseconds, monotonic. */
  readonly until: number
  left: number
}

export class Leases {
  #ms: number
  #monotonic: () => number
  #held = new Map<string, Held>()
  #fetching = new Map<string, Promise<Batch>>()

  /** A batch is held for `ms` milliseconds of the clock `monotonic`. */
  constructor(ms: number, monotonic: () => number) {
    this.#ms = ms
    this.#monotonic = monotonic
  }

  /**
   * One call, from the current batch or a new one; calls that arrive during a fetch wait for it. `left` remain in the
   * batch. `key` contains everything that `fetch` depends on.
   */
  async take(key: string, fetch: () => Promise<Batch>): Promise<Batch & { left: number }> {
    for (;;) {
      const held = this.#held.get(key)
      if (held !== undefined && held.left > 0 && !this.#isOver(held)) {
        held.left--
        return { ...held.batch, left: held.left }
      }
      const batch = await (this.#fetching.get(key) ?? this.#fetch(key, fetch))
      if (batch.taken === 0) return { ...batch, left: 0 }
    }
  }

  /** Ends the batches whose time is over, or all. */
  endBatches(all = false): void {
    for (const [key, held] of this.#held) if (all || this.#isOver(held)) this.#drop(key, held)
  }

  async #fetch(key: string, fetch: () => Promise<Batch>): Promise<Batch> {
    const until = this.#monotonic() + this.#ms
    const fetching = fetch()
    this.#fetching.set(key, fetching)
    try {
      const batch = await fetching
      const old = this.#held.get(key)
      if (old !== undefined) this.#drop(key, old)
      if (batch.taken > 0) this.#held.set(key, { batch, until, left: batch.taken })
      return batch
    } finally {
      this.#fetching.delete(key)
    }
  }

  #isOver({ until }: Held): boolean {
    return this.#monotonic() >= until
  }

  #drop(key: string, { batch, left }: Held): void {
    this.#held.delete(key)
    if (left > 0) batch.unused?.(left)
  }
}
