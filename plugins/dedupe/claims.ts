// The claims of this process: renewed while their calls run, ended when those have. They survive a reload, as the calls
// of the old policy end under them.
import {
  type DedupeClaim,
  type DedupeClaimResult,
  type DedupeStore,
  type Denied,
  denied,
  type Hold,
} from '@svc/core'
import type { WaitDeadline } from './wait-deadline.js'
import { WaitQueue } from './wait-queue.js'

/** How a call ended: null keeps no answer, undefined says that its outcome is unknown. */
type End = { readonly answer: Uint8Array | null | undefined } | 'released'

/** An end that the store did not take is repeated at so many renewals, and so many are kept. */
const MAX_ATTEMPTS = 30
const MAX_UNSAVED = 1000

export class Claims {
  #store: DedupeStore
  #queue: WaitQueue
  #running = new Set<DedupeClaim>()
  #unsaved = new Map<DedupeClaim, { readonly end: End; attempts: number }>()
  #timer: NodeJS.Timeout

  /** A claim stands for `leaseMs` milliseconds and is renewed three times in them. */
  constructor(store: DedupeStore, leaseMs: number) {
    this.#store = store
    this.#queue = new WaitQueue(this)
    this.#timer = setInterval(() => void this.#renew(), leaseMs / 3).unref()
  }

  ready(): string | undefined {
    return this.#store.ready?.()
  }

  warning(): string | undefined {
    return this.#store.warning?.()
  }

  /** Rejects when the store cannot be asked. A claim that was granted has to be ended. */
  async claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    const result = await this.#store.claim(claim)
    if (result.state === 'claimed') this.#running.add(claim)
    return result
  }

  /** As `WaitQueue.wait`. */
  wait(claim: DedupeClaim, deadline: WaitDeadline): Promise<DedupeClaimResult> {
    return this.#queue.wait(claim, deadline)
  }

  /** False, or rejects when the store cannot be asked: the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean> {
    return this.#store.markSent(claim)
  }

  /** The call was not sent, or had no effect. Never rejects: what the store does not take now is repeated later. */
  release(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, 'released')
  }

  /** As `release`: the call has been answered, with null for an answer that is not kept. */
  complete(claim: DedupeClaim, answer: Uint8Array | null): Promise<void> {
    return this.#end(claim, { answer })
  }

  /** As `release`: the outcome of the call is unknown. */
  markUnknown(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, { answer: undefined })
  }

  /** Ends the renewals; ends that were not saved are tried once more. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#retryUnsaved()
  }

  async #end(claim: DedupeClaim, end: End): Promise<void> {
    try {
      await this.#save(claim, end)
    } catch {
      // The store's guard has logged it. Until the end is saved, the claim stands and is renewed.
      if (this.#unsaved.size < MAX_UNSAVED) this.#unsaved.set(claim, { end, attempts: MAX_ATTEMPTS })
      else this.#running.delete(claim)
      return
    }
    this.#running.delete(claim)
    this.#queue.wake(claim)
  }

  #save(claim: DedupeClaim, end: End): Promise<unknown> {
    if (end === 'released') return this.#store.release(claim)
    const { answer } = end
    return answer === undefined ? this.#store.markUnknown(claim) : this.#store.complete(claim, answer)
  }

  async #renew(): Promise<void> {
    await this.#retryUnsaved()
    const renewals = [...this.#running].map(async (claim) => {
      // Without its claim the call may still save its outcome.
      if (!(await this.#store.renew(claim))) this.#running.delete(claim)
    })
    // The store's guard logs one that fails; it is tried again the next time.
    await Promise.allSettled(renewals)
  }

  async #retryUnsaved(): Promise<void> {
    const unsaved = [...this.#unsaved]
    this.#unsaved.clear()
    await Promise.all(
      unsaved.map(async ([claim, { end, attempts }]) => {
        await this.#end(claim, end)
        const again = this.#unsaved.get(claim)
        if (again === undefined) return
        again.attempts = attempts - 1
        if (again.attempts > 0) return
        this.#unsaved.delete(claim)
        this.#running.delete(claim)
      }),
    )
  }
}

/** The claim of one call as a hold: marked as sent directly before the first byte, freed if the call was not sent. */
export class ClaimHold implements Hold {
  #claims: Claims
  #claim: DedupeClaim

  constructor(claims: Claims, claim: DedupeClaim) {
    this.#claims = claims
    this.#claim = claim
  }

  async commit(): Promise<Denied | undefined> {
    try {
      if (await this.#claims.markSent(this.#claim)) return undefined
    } catch {
      // The store's guard has logged the cause.
      return denied('STORE_UNAVAILABLE', 'The idempotency key cannot be marked, so the call was not sent.', {
        headers: { 'retry-after': '1' },
      })
    }
    return denied(
      'IDEMPOTENT_DUPLICATE',
      'Another call took the idempotency key over while this one waited, so this one was not sent.',
      { headers: { 'retry-after': '1' } },
    )
  }

  release(): Promise<void> {
    return this.#claims.release(this.#claim)
  }
}
