// The interruptions of a call from outside: a caller that leaves, a drain; and the pauses while a person decides.
import type { ErrorCode } from './errors.js'

/** The base of `CallControl`. */
export abstract class InterruptibleCall {
  #isDisconnected = false
  #disconnectListeners: Set<() => void> | undefined
  #pauses = 0
  #pauseListeners: Several<(isPaused: boolean) => void>
  #isDraining = false
  #firstByteListener: (() => void) | undefined

  abstract abort(code: ErrorCode, message: string): void

  /** The caller has disconnected. That alone does not stop a call that makes progress. */
  disconnect(): void {
    this.#isDisconnected = true
    const listeners = this.#disconnectListeners
    this.#disconnectListeners = undefined
    if (listeners !== undefined) for (const listener of listeners) listener()
  }

  get isDisconnected(): boolean {
    return this.#isDisconnected
  }

  onDisconnect(listener: () => void): () => void {
    if (this.#isDisconnected) listener()
    else {
      this.#disconnectListeners ??= new Set()
      this.#disconnectListeners.add(listener)
    }
    return () => this.#disconnectListeners?.delete(listener)
  }

  get isPaused(): boolean {
    return this.#pauses > 0
  }

  /** Pauses are counted: time limits resume when every pause has ended. */
  pauseTimeout(): () => void {
    this.#pauses++
    if (this.#pauses === 1) this.#reportPause(true)
    if (this.#isDraining) this.drain()
    let hasEnded = false
    return () => {
      if (hasEnded) return
      hasEnded = true
      this.#pauses--
      if (this.#pauses === 0) this.#reportPause(false)
    }
  }

  onTimeoutPause(listener: (isPaused: boolean) => void): void {
    if (this.#pauseListeners === undefined) this.#pauseListeners = listener
    else this.#pauseListeners = withOne(this.#pauseListeners, listener)
  }

  #reportPause(isPaused: boolean): void {
    for (const listener of listOf(this.#pauseListeners)) listener(isPaused)
  }

  /** Aborts the call if it waits for a person, now or later, because the gateway shuts down. */
  drain(): void {
    this.#isDraining = true
    if (this.#pauses > 0) this.abort('DRAINING', 'The gateway is shutting down; ask again later.')
  }

  onFirstByte(listener: () => void): void {
    this.#firstByteListener = listener
  }

  /** The upstream has begun to respond. */
  firstByte(): void {
    const listener = this.#firstByteListener
    this.#firstByteListener = undefined
    listener?.()
  }
}

/** None, one, or a list: most calls have one listener of a kind. */
export type Several<T> = T | T[] | undefined

/** Adds an item, to the list itself if there is one. */
export function withOne<T extends object>(items: Several<T>, item: T): Several<T> {
  if (items === undefined) return item
  if (!Array.isArray(items)) return [items, item]
  items.push(item)
  return items
}

export function listOf<T extends object>(items: Several<T>): readonly T[] {
  if (items === undefined) return none
  return Array.isArray(items) ? items : [items]
}

const none: readonly never[] = []
