// Room in memory for one message of a server while it is read. From a size on, it needs a part of the budget, and the server
// waits until there is one: nothing more is read meanwhile.
import type { Abortable, MaybePromise } from '@svc/core'
import type { BudgetUser } from './budget.js'
import { responseBudget, smallBytes } from './process-budgets.js'

export interface MessageRoomOptions {
  readonly user: BudgetUser
  /** The size of the message, or the largest that it may have. */
  readonly maxBytes: number
  readonly signal?: Abortable
  /** Limits how long an incomplete message may hold room: after `ms` milliseconds `end` runs. */
  readonly unfinished?: { readonly ms: number; end(): void }
}

export class MessageRoom {
  #options: MessageRoomOptions
  #release: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: MessageRoomOptions) {
    this.#options = options
  }

  /** Takes room once `bytes` of the message are in memory. Rejects with the reason of the signal. */
  grow(bytes: number): MaybePromise<void> {
    if (bytes <= smallBytes || this.#release !== undefined || this.#isClosed) return undefined
    const { user, maxBytes, signal, unfinished } = this.#options
    return responseBudget.take(user, maxBytes, signal).then((release) => {
      if (this.#isClosed) return release()
      this.#release = release
      if (unfinished !== undefined) this.#timer = setTimeout(() => unfinished.end(), unfinished.ms).unref()
    })
  }

  /** The message is complete; it has its room until it is freed. */
  complete(): void {
    clearTimeout(this.#timer)
  }

  /** Gives the room back; another message may take it again. */
  free(): void {
    this.complete()
    this.#release?.()
    this.#release = undefined
  }

  /** Gives the room back for good. */
  close(): void {
    this.#isClosed = true
    this.free()
  }
}
