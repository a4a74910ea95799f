// The abort state of a call. Creating an AbortSignal costs ten times as much and few calls abort, so one is created
// only on demand.
import type { Refusal } from './errors.js'

/** The part of AbortSignal that waiting code needs. */
export interface Abortable {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Rejects with the reason when `signal` aborts, without waiting for the work to end. */
export async function abortable<T>(signal: Abortable, work: Promise<T>): Promise<T> {
  let stop = (): void => undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

export class CallAbort implements Abortable {
  #reason: Refusal | undefined
  #listeners: (() => void)[] = []
  #controller: AbortController | undefined

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  get reason(): Refusal | undefined {
    return this.#reason
  }

  /** Only the first call has an effect. */
  abort(reason: Refusal): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
    for (const listener of this.#listeners.splice(0)) listener()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at !== -1) this.#listeners.splice(at, 1)
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }
}
