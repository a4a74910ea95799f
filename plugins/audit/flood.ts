// A flood of refused unauthenticated requests must not become a flood of records: beyond a rate, one
// record a second stands for all (decisions.md §4).

const perSecond = 50

export class FloodGate {
  #second = -1
  #passed = 0
  #held = 0

  /**
   * Whether the request that was refused at `nowMs` gets a record of its own; if not, it is counted.
   */
  admit(nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#passed = 0
    }
    if (this.#passed < perSecond) {
      this.#passed++
      return true
    }
    this.#held++
    return false
  }

  /** How many were counted since the last time this was asked. */
  take(): number {
    const held = this.#held
    this.#held = 0
    return held
  }
}
