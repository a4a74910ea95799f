// How long a duplicate waits: until its time is over, its call must stop, or its caller has gone.
import type { Call } from '@svc/core'

export class Patience implements Disposable {
  /** Resolves when it is over. */
  readonly ended: Promise<void>
  #isOver = false
  #letGo: (() => void)[] = []

  constructor(call: Call, ms: number) {
    let tell = (): void => undefined
    this.ended = new Promise((resolve) => {
      tell = resolve
    })
    const end = (): void => {
      this.#isOver = true
      tell()
    }
    const timer = setTimeout(end, ms)
    call.abortState.addEventListener('abort', end)
    this.#letGo.push(
      () => clearTimeout(timer),
      () => call.abortState.removeEventListener('abort', end),
      call.onDisconnect(end),
    )
    if (call.abortState.aborted) end()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  [Symbol.dispose](): void {
    for (const letGo of this.#letGo) letGo()
  }
}
