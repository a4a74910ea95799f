// Random ids of traces and spans.
import { randomBytes } from 'node:crypto'
import type { Ids } from '@svc/core'

const poolBytes = 4096

/** Takes ids from a pool of random digits: one call of the generator for each would cost more than the id. */
export class RandomIds implements Ids {
  #digits = ''
  #used = 0

  traceId(): string {
    return this.#take(32)
  }

  spanId(): string {
    return this.#take(16)
  }

  #take(length: number): string {
    if (this.#used + length > this.#digits.length) {
      this.#digits = randomBytes(poolBytes).toString('hex')
      this.#used = 0
    }
    const id = this.#digits.slice(this.#used, this.#used + length)
    this.#used += length
    // W3C Trace Context forbids all zeros; the chance is that of guessing an id.
    return /[1-9a-f]/.test(id) ? id : this.#take(length)
  }
}
