// Limits the requests that one principal has in flight, so that the slow evaluations of one do not fill the connections
// to the runtime for all.

/** A quarter of the connections to a remote runtime. */
const maxPerPrincipal = 16

interface Slots {
  taken: number
  /** Resolve the calls that wait for a slot, the oldest first. */
  readonly waiting: Set<() => void>
}

export class RequestSlots {
  /** Of principals with requests in flight; others have no entry. */
  #principals = new Map<string, Slots>()

  /** Resolves with the function that frees the slot. Rejects with the signal's reason when it aborts first. */
  async take(principal: string, signal: AbortSignal): Promise<() => void> {
    const slots = this.#principals.get(principal) ?? { taken: 0, waiting: new Set() }
    this.#principals.set(principal, slots)
    if (slots.taken < maxPerPrincipal) slots.taken++
    else await waitIn(slots.waiting, signal)
    return () => {
      // The slot passes to the oldest waiting call and stays taken.
      const [next] = slots.waiting
      if (next !== undefined) return next()
      slots.taken--
      if (slots.taken === 0) this.#principals.delete(principal)
    }
  }
}

function waitIn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      waiting.delete(onTurn)
      reject(signal.reason)
    }
    const onTurn = (): void => {
      waiting.delete(onTurn)
      signal.removeEventListener('abort', onAbort)
      resolve()
    }
    waiting.add(onTurn)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
}
