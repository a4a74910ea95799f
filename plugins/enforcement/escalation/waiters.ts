// Callers that wait for a decision in this process. Decisions of other gateways are found by polling the store.

/** Milliseconds between two polls, at first and at most. */
const MIN_PAUSE_MS = 50
const MAX_PAUSE_MS = 1000

export class Waiters {
  #waiting = new Map<string, Set<() => void>>()

  /** The escalation has changed. */
  wake(id: string): void {
    for (const wake of this.#waiting.get(id) ?? []) wake()
  }

  /** Calls `poll` until it returns true, `withinMs` are over, or `signal` fires. */
  async until(
    id: string,
    poll: () => Promise<boolean>,
    { withinMs, signal }: { readonly withinMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    let isOver = false
    let wakeUp: () => void = () => undefined
    const stop = () => {
      isOver = true
      wakeUp()
    }
    const deadline = setTimeout(stop, withinMs)
    signal.addEventListener('abort', stop, { once: true })
    const remove = this.#add(id, () => wakeUp())
    try {
      for (let pause = MIN_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
        // Made before the poll, so that a change during it is not missed.
        let timer: NodeJS.Timeout | undefined
        const paused = new Promise<void>((resolve) => {
          wakeUp = resolve
          timer = setTimeout(resolve, pause)
        })
        try {
          if ((await poll()) || isOver) return
          await paused
        } finally {
          clearTimeout(timer)
        }
      }
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', stop)
      remove()
    }
  }

  #add(id: string, wake: () => void): () => void {
    const all = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, all.add(wake))
    return () => {
      all.delete(wake)
      if (all.size === 0) this.#waiting.delete(id)
    }
  }
}
