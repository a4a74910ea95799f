// A deadline for store operations: a store that does not answer must not block a call, and while it hangs, calls do not
// wait for the deadline each.
import type { Clock } from '../plugin/tokens.js'

/** After a timeout, one operation per `timeoutMs` is tried until the store answers one, even late. */
export class Deadline {
  #name: string
  #timeoutMs: number
  #clock: Clock
  #isHanging = false
  #retryAt = 0

  /** `name` is the name of the store in errors, such as `quota store`. */
  constructor(name: string, timeoutMs: number, clock: Clock) {
    this.#name = name
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  get isHanging(): boolean {
    return this.#isHanging
  }

  /**
   * The result of `operation`. Rejects at the deadline, or at once while the store hangs. `onLate` gets a result that
   * arrives after the deadline.
   */
  async run<T>(operation: () => Promise<T>, onLate: (result: T) => void): Promise<T> {
    if (this.#isHanging && this.#clock.monotonic() < this.#retryAt) {
      throw new Error(`the ${this.#name} has stopped answering`)
    }
    this.#retryAt = this.#clock.monotonic() + this.#timeoutMs
    let isLate = false
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        isLate = true
        this.#isHanging = true
        reject(new Error(`the ${this.#name} gave no answer within ${this.#timeoutMs} ms`))
      }, this.#timeoutMs)
    })
    const result = operation().finally(() => {
      this.#isHanging = false
    })
    try {
      return await Promise.race([result, timeout])
    } finally {
      clearTimeout(timer)
      // A late error is dropped, as the timeout was reported.
      if (isLate) result.then(onLate, () => undefined)
    }
  }
}
