// Interruptions of a call: aborts, a caller that leaves, a drain; and the pauses while a person decides.
import { CallAbort } from './abort.js'
import { type ErrorCode, Refusal } from './errors.js'

/** The pipeline, which ends a call that goes on after this. */
export interface Watcher {
  aborted(reason: Refusal): void
  /** The caller has left. */
  left(): void
}

export class Interruptions {
  readonly abortState = new CallAbort()
  #isDisconnected = false
  #disconnectListeners: Set<() => void> | undefined
  #pauses = 0
  #pauseListeners: ((isPaused: boolean) => void)[] | undefined
  #isDraining = false
  #watcher: Watcher | undefined

  /** Notifies `watcher` of interruptions from now on, and at once of earlier ones. There is one watcher at a time. */
  watch(watcher: Watcher | undefined): void {
    this.#watcher = watcher
    const { reason } = this.abortState
    if (reason !== undefined) watcher?.aborted(reason)
    if (this.#isDisconnected) watcher?.left()
  }

  abort(code: ErrorCode, message: string): void {
    if (this.abortState.aborted) return
    const reason = new Refusal(code, message)
    this.abortState.abort(reason)
    this.#watcher?.aborted(reason)
  }

  get isPaused(): boolean {
    return this.#pauses > 0
  }

  disconnect(): void {
    this.#isDisconnected = true
    for (const listener of this.#disconnectListeners ?? []) listener()
    this.#disconnectListeners = undefined
    this.#watcher?.left()
  }

  onDisconnect(listener: () => void): () => void {
    if (this.#isDisconnected) listener()
    else {
      this.#disconnectListeners ??= new Set()
      this.#disconnectListeners.add(listener)
    }
    return () => this.#disconnectListeners?.delete(listener)
  }

  /** Pauses are counted: time limits resume when every pause has ended. */
  pause(): () => void {
    this.#pauses++
    if (this.#pauses === 1) this.#report(true)
    if (this.#isDraining) this.drain()
    let hasEnded = false
    return () => {
      if (hasEnded) return
      hasEnded = true
      this.#pauses--
      if (this.#pauses === 0) this.#report(false)
    }
  }

  onPause(listener: (isPaused: boolean) => void): void {
    this.#pauseListeners ??= []
    this.#pauseListeners.push(listener)
  }

  #report(isPaused: boolean): void {
    for (const listener of this.#pauseListeners ?? []) listener(isPaused)
  }

  drain(): void {
    this.#isDraining = true
    if (this.isPaused) this.abort('DRAINING', 'The gateway is shutting down; ask again later.')
  }
}
