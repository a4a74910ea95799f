// Decides which caller's request a process works on next: of those that wait, the caller with the fewest running ones.
import type { Abortable } from '@svc/core'

interface Waiting {
  readonly caller: string
  go(): void
}

export class Turns {
  /** Number of running requests. */
  running = 0
  #max: number
  #maxOfCaller: number
  /** Running requests by caller; callers without any have no entry. */
  #ofCaller = new Map<string, number>()
  /** Waiting requests, the oldest first. */
  #waiting = new Set<Waiting>()

  constructor(max: number, maxOfCaller: number) {
    this.#max = max
    this.#maxOfCaller = maxOfCaller
  }

  /** Resolves with the function that ends the turn. Rejects with the signal's reason when it aborts first. */
  async take(caller: string, signal: Abortable): Promise<() => void> {
    if (this.running < this.#max && this.#of(caller) < this.#maxOfCaller) this.#begin(caller)
    else await this.#turn(caller, signal)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#end(caller)
    }
  }

  #of(caller: string): number {
    return this.#ofCaller.get(caller) ?? 0
  }

  #begin(caller: string): void {
    this.running++
    this.#ofCaller.set(caller, this.#of(caller) + 1)
  }

  #end(caller: string): void {
    this.running--
    const left = this.#of(caller) - 1
    if (left > 0) this.#ofCaller.set(caller, left)
    else this.#ofCaller.delete(caller)
    let next: Waiting | undefined
    let fewest = this.#maxOfCaller
    for (const waiting of this.#waiting) {
      const count = this.#of(waiting.caller)
      if (count >= fewest) continue
      next = waiting
      fewest = count
    }
    if (next === undefined) return
    this.#begin(next.caller)
    next.go()
  }

  #turn(caller: string, signal: Abortable): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        caller,
        go: () => {
          this.#waiting.delete(waiting)
          signal.removeEventListener('abort', leave)
          resolve()
        },
      }
      const leave = (): void => {
        this.#waiting.delete(waiting)
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave)
      this.#waiting.add(waiting)
    })
  }
}
