// The mandates of one call as a hold: used directly before the call is sent, given back when it was not.
import { type DedupeClaim, type DedupeStore, type Denied, denied, type Hold } from '@svc/core'

export interface UseHoldParts {
  readonly store: DedupeStore
  /** In the order of the claims; one that another call has made means that the mandate is used. */
  readonly claims: readonly DedupeClaim[]
  /** Held already since the mandates were verified. */
  readonly key: DedupeClaim | undefined
  /** Adds the finding of a used mandate. The denial, where the policy denies for it. */
  replayed(): Denied | undefined
  /** The policy only reports, so that the call does not depend on the store. */
  readonly isReportOnly: boolean
}

export class UseHold implements Hold {
  #parts: UseHoldParts
  #held: DedupeClaim[]

  constructor(parts: UseHoldParts) {
    this.#parts = parts
    this.#held = parts.key === undefined ? [] : [parts.key]
  }

  async commit(): Promise<Denied | undefined> {
    const { claims, key, isReportOnly } = this.#parts
    try {
      for (const claim of claims) {
        if (!(await this.#take(claim))) return this.#parts.replayed()
      }
      // For a while of waiting for a person, another call may have taken the key over.
      if (key !== undefined && !(await this.#take(key))) return this.#parts.replayed()
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

  async #take(claim: DedupeClaim): Promise<boolean> {
    const { store } = this.#parts
    const { state } = await store.claim(claim)
    if (state !== 'claimed') return false
    if (!this.#held.includes(claim)) this.#held.push(claim)
    return store.markSent(claim)
  }

  /** What cannot be ended now ends by itself: as unknown, which is used, or as free where nothing was sent. */
  async #end(end: (store: DedupeStore, claim: DedupeClaim) => Promise<void>): Promise<void> {
    const { store } = this.#parts
    await Promise.allSettled(this.#held.splice(0).map((claim) => end(store, claim)))
  }
}

function unavailable(): Denied {
  return denied(
    'STORE_UNAVAILABLE',
    'It cannot be found out whether the mandate was used, so the call was not sent.',
    {
      headers: { 'retry-after': '1' },
    },
  )
}
