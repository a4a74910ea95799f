// Limits the records of refused unauthenticated requests: above a rate, one record a second counts the rest
// (decisions.md §4).

const MAX_RECORDS_PER_SECOND = 50

export class FloodLimiter {
  #second = -1
  #recorded = 0
  #suppressed = 0

  /** Whether the request refused at `nowMs` gets a record of its own; otherwise it is counted. */
  admit(nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#recorded = 0
    }
    if (this.#recorded < MAX_RECORDS_PER_SECOND) {
      this.#recorded++
      return true
    }
    this.#suppressed++
    return false
  }

  /** Returns and resets the count. */
  takeSuppressed(): number {
    const suppressed = this.#suppressed
    this.#suppressed = 0
    return suppressed
  }
}
