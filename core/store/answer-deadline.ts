// A store that gives no answer must not hold a call, and a store known to be silent must not cost every call the wait.
import type { Clock } from '../plugin/tokens.js'

class SilentStoreError extends Error {
  override readonly name = 'SilentStoreError'
}

/** Once a question has run out of time, one question per `timeoutMs` is put until any answer comes, late ones too. */
export class AnswerDeadline {
  #name: string
  #timeoutMs: number
  #clock: Clock
  #isSilent = false
  #askAgainAt = 0

  /** `name` is what faults call the store, such as `the quota store`. */
  constructor(name: string, timeoutMs: number, clock: Clock) {
    this.#name = name
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  get isSilent(): boolean {
    return this.#isSilent
  }

  /**
   * What `ask` resolves to, within the time; rejects with `SilentStoreError` after it, or at once while the store is
   * silent. `late` gets an answer that came when it was over.
   */
  async run<T>(ask: () => Promise<T>, late: (answer: T) => void): Promise<T> {
    if (this.#isSilent && this.#clock.monotonic() < this.#askAgainAt) {
      throw new SilentStoreError(`${this.#name} has stopped answering`)
    }
    this.#askAgainAt = this.#clock.monotonic() + this.#timeoutMs
    let isOver = false
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        isOver = true
        this.#isSilent = true
        reject(new SilentStoreError(`${this.#name} gave no answer within ${this.#timeoutMs} ms`))
      }, this.#timeoutMs)
    })
    const answer = ask().finally(() => {
      this.#isSilent = false
    })
    try {
      return await Promise.race([answer, timeout])
    } finally {
      clearTimeout(timer)
      // A late fault has nothing to tell: the call was answered for the silence before it.
      if (isOver) answer.then(late, () => undefined)
    }
  }
}

/** For a store in this process's memory: it cannot hang, and a timer for each question would cost more than it. */
export const atOnce: Pick<AnswerDeadline, 'isSilent' | 'run'> = {
  isSilent: false,
  run: (ask) => ask(),
}
