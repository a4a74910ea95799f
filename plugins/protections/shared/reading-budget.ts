// The time for looking at the texts of one message. A caller or a server chooses the texts, so that what they cost together is
// limited, and others have their turn meanwhile.

/** Milliseconds of looking after which others have a turn. */
const TURN_MS = 2
/** Milliseconds for every message, and for each character of it: several times what harmless text takes on a slow machine. */
const BASE_MS = 250
const MS_PER_CHARACTER = 0.0005

export class ReadingBudget {
  #allowedMs: number
  #spentMs = 0
  /** Since the last turn of others. */
  #sinceMs = 0
  #cpuBefore: NodeJS.CpuUsage | undefined
  #isSpent = false

  constructor(baseMs = BASE_MS) {
    this.#allowedMs = baseMs
  }

  /** Whether what is left is not looked at. */
  get isSpent(): boolean {
    return this.#isSpent
  }

  /** Each character and each value that is looked at may take its time. */
  allow(characters: number): void {
    this.#allowedMs += characters * MS_PER_CHARACTER
  }

  /** Runs a reader to its end, with turns for others between its steps. */
  async run<T>(steps: Generator<undefined, T>): Promise<T> {
    for (;;) {
      this.#cpuBefore ??= process.cpuUsage()
      const began = performance.now()
      let step = steps.next()
      let ms = performance.now() - began
      while (step.done !== true && this.#sinceMs + ms < TURN_MS) {
        step = steps.next()
        ms = performance.now() - began
      }
      this.#spend(ms)
      if (step.done === true) return step.value
      await nextTurn()
      this.#sinceMs = 0
    }
  }

  /** Other processes can make a step long: the time of this process is the most that it took. */
  #spend(ms: number): void {
    this.#sinceMs += ms
    this.#spentMs += ms
    if (this.#spentMs <= this.#allowedMs || this.#cpuBefore === undefined) return
    const { user, system } = process.cpuUsage(this.#cpuBefore)
    if ((user + system) / 1000 > this.#allowedMs) this.#isSpent = true
  }
}

const waiting: (() => void)[] = []

/** Of several readers one goes on each time, after the events that have come in. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(giveTurn)
}
