// The claim of one call as a hold: marked as sent directly before the first byte, freed when the call was not sent.
import { type DedupeClaim, type Denied, denied, type Hold } from '@svc/core'
import type { Claims } from './claims.js'

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
