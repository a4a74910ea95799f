// The mandates of one call as a hold: reserved when they are verified, used directly before the call is sent, and
// returned when it was not.
import { type DedupeClaim, type DedupeStore, type Denied, denied, type Hold } from '@svc/core'

interface UseHoldParts {
  readonly store: DedupeStore
  /** Of each token that is good for one use. */
  readonly tokens: readonly DedupeClaim[]
  /** Of the idempotency key. */
  readonly key: DedupeClaim | undefined
  /** Adds the finding of a used mandate. The denial, where the policy denies for it. */
  readonly replayed: () => Denied | undefined
  /** The policy only reports, so that the call does not depend on the store. */
  readonly isReportOnly: boolean
}

/** `other_mandate`: the idempotency key was used with another one. */
export type Reservation = 'reserved' | 'replayed' | 'other_mandate'

export class UseHold implements Hold {
  #parts: UseHoldParts
  /** What the commit uses. */
  #wanted: readonly DedupeClaim[] = []
  #held = new Set<DedupeClaim>()

  constructor(parts: UseHoldParts) {
    this.#parts = parts
  }

  /** Rejects when the store cannot be asked. Without a reservation the commit uses nothing. */
  async reserve(): Promise<Reservation> {
    const { store, tokens, key } = this.#parts
    if (key !== undefined) {
      const { state } = await store.claim(key)
      if (state === 'reused') return 'other_mandate'
      if (state !== 'claimed') {
        // A repeat of the call that has the key: `dedupe` answers it, and it uses the mandates only if it is sent.
        this.#wanted = tokens
        return 'reserved'
      }
      this.#held.add(key)
    }
    for (const token of tokens) {
      if (await this.#claim(token)) continue
      await this.release()
      return 'replayed'
    }
    this.#wanted = [...this.#held]
    return 'reserved'
  }

  async commit(): Promise<Denied | undefined> {
    const { store, replayed, isReportOnly } = this.#parts
    try {
      for (const claim of this.#wanted) {
        // Again, as a reservation lapses in a long wait for a person.
        if (!(await this.#claim(claim)) || !(await store.markSent(claim))) return replayed()
      }
      return undefined
    } catch {
      // The store's guard has logged the cause.
      return isReportOnly ? undefined : unavailable()
    }
  }

  async release(): Promise<void> {
    await this.#end((store, claim) => store.release(claim))
  }

  /** The call was sent: what it used stays used until it expires. */
  async settle(): Promise<void> {
    await this.#end(async (store, claim) => {
      await store.complete(claim, null)
    })
  }

  async #claim(claim: DedupeClaim): Promise<boolean> {
    const { state } = await this.#parts.store.claim(claim)
    if (state === 'claimed') this.#held.add(claim)
    return state === 'claimed'
  }

  /** What cannot be ended now ends by itself: as unknown, which is used, or as free where nothing was sent. */
  async #end(end: (store: DedupeStore, claim: DedupeClaim) => Promise<void>): Promise<void> {
    const ended = [...this.#held].map((claim) => end(this.#parts.store, claim))
    this.#held.clear()
    await Promise.allSettled(ended)
  }
}

export function unavailable(): Denied {
  return denied(
    'STORE_UNAVAILABLE',
    'It cannot be found out whether the mandate was used, so the call was not sent.',
    { headers: { 'retry-after': '1' } },
  )
}
