// One policy in force: its pipeline and targets. A reload makes the next one; calls end where they began.
import { type Call, type Outcome, type Pipeline, Refusal } from '@svc/core'

export class Generation {
  readonly pipeline: Pipeline
  readonly #targets: ReadonlyMap<string, URL>
  #calls = new Set<Call>()
  #onIdle: (() => void) | undefined

  constructor(pipeline: Pipeline, targets: Readonly<Record<string, string>>) {
    this.pipeline = pipeline
    this.#targets = new Map(Object.entries(targets).map(([name, url]) => [name, new URL(url)]))
  }

  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  target(server: string): URL {
    const target = this.#targets.get(server)
    if (target === undefined) throw new Refusal('TARGET_NOT_FOUND', 'No such server is configured.')
    return target
  }

  /** Runs a call and keeps this generation alive until `answer` has written the outcome to its end. */
  async serve(call: Call, answer: (outcome: Outcome) => Promise<void>): Promise<void> {
    this.#calls.add(call)
    try {
      await answer(await this.pipeline.run(call))
    } finally {
      this.#calls.delete(call)
      if (this.#calls.size === 0) this.#onIdle?.()
    }
  }

  /** Waits for calls to end, breaks off those still running after `drainMs`, then stops the stages. */
  async retire(drainMs: number): Promise<void> {
    await this.#idle(drainMs)
    for (const call of this.#calls) call.abort('DRAINING', 'The gateway took up a new policy; try again.')
    await this.#idle(drainMs)
    await this.pipeline.stop()
  }

  #idle(withinMs: number): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs)
      this.#onIdle = () => {
        clearTimeout(timer)
        this.#onIdle = undefined
        resolve()
      }
    })
  }
}
