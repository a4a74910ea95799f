// Who waits for a decision in this process. What another gateway decides is found by asking the store now and then.

/** Milliseconds between two looks into the store: soon at first. */
const FIRST_LOOK_MS = 50
const LAST_LOOK_MS = 1000

export class Waiters {
  #waiting = new Map<string, Set<() => void>>()

  /** Something has become of the escalation. */
  wake(id: string): void {
    for (const wake of this.#waiting.get(id) ?? []) wake()
  }

  /** Calls `look` until it says that there is no more to wait for, `withinMs` are over, or `signal` fires. */
  async until(
    id: string,
    look: () => Promise<boolean>,
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
    const woken = this.#add(id, () => wakeUp())
    try {
      for (let pause = FIRST_LOOK_MS; !signal.aborted; pause = Math.min(2 * pause, LAST_LOOK_MS)) {
        // Made before the look: what happens during it must not be missed.
        let timer: NodeJS.Timeout | undefined
        const rest = new Promise<void>((resolve) => {
          wakeUp = resolve
          timer = setTimeout(resolve, pause)
        })
        try {
          if ((await look()) || isOver) return
          await rest
        } finally {
          clearTimeout(timer)
        }
      }
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', stop)
      woken()
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
