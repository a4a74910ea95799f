// How long a duplicate waits: until its time is over, its call is aborted, or its caller disconnects.
import type { Call } from '@svc/core'

export class WaitDeadline implements Disposable {
  /** Resolves when the wait is over. */
  readonly ended: Promise<void>
  #isOver = false
  #cleanups: (() => void)[] = []

  constructor(call: Call, ms: number) {
    let resolveEnded = (): void => undefined
    this.ended = new Promise((resolve) => {
      resolveEnded = resolve
    })
    const end = (): void => {
      this.#isOver = true
      resolveEnded()
    }
    const timer = setTimeout(end, ms)
    call.abortState.addEventListener('abort', end)
    this.#cleanups.push(
      () => clearTimeout(timer),
      () => call.abortState.removeEventListener('abort', end),
      call.onDisconnect(() => call.abort('CANCELLED', 'The caller disconnected before the answer.')),
    )
    if (call.abortState.aborted) end()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  [Symbol.dispose](): void {
    for (const cleanup of this.#cleanups) cleanup()
  }
}
