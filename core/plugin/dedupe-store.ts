// The storage port for idempotency keys: which call holds a key, whether it was sent, and what it was answered.
import type { StoreLifecycle } from './store-lifecycle.js'

/** One call's attempt to be the one that runs under its key. */
export interface DedupeClaim {
  /** A hash, of fixed length. */
  readonly key: string
  /** Hash of the request: another one under the same key is another request. */
  readonly fingerprint: string
  /** Of this attempt alone, and not to be guessed. */
  readonly owner: string
  /** Milliseconds for which the claim stands unless it is renewed. */
  readonly leaseMs: number
  /** Milliseconds for which an outcome is remembered. */
  readonly ttlMs: number
}

/** The state of the key that a claim was made for. */
export type DedupeClaimResult =
  /** It is the claim's now. */
  | { readonly state: 'claimed' }
  /** Another call runs under it. */
  | { readonly state: 'in_flight' }
  /** A call has run under it; null where its answer was not kept. */
  | { readonly state: 'answered'; readonly answer: Uint8Array | null }
  /** A call was sent under it, and its outcome is unknown. */
  | { readonly state: 'unknown' }
  /** It stands for a request with another fingerprint. */
  | { readonly state: 'reused' }

/**
 * A key is free, claimed, sent, answered or unknown. A claim that lapses is free again; one that lapses after it was
 * marked as sent is unknown. Every operation is atomic, and those that take a claim do nothing for one that does not
 * own its key. Operations reject when the store cannot be asked; the call is then refused.
 */
export interface DedupeStore extends StoreLifecycle {
  /** Claims a free key; otherwise says how it stands, and changes nothing. The owner of a claim gets it again. */
  claim(claim: DedupeClaim): Promise<DedupeClaimResult>
  /** Resolves when that is durable. False: the key is the claim's no longer, and the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean>
  /** Makes the claim stand for another `leaseMs`. False: the key is the claim's no longer. */
  renew(claim: DedupeClaim): Promise<boolean>
  /** The call was not sent: frees the key. */
  release(claim: DedupeClaim): Promise<void>
  /**
   * Keeps the answer of a call that was sent, null for one that is not kept; also where the store has forgotten the
   * key. False: it is another's.
   */
  complete(claim: DedupeClaim, answer: Uint8Array | null): Promise<boolean>
  /** As `complete`: the call was sent, and its outcome is unknown. */
  markUnknown(claim: DedupeClaim): Promise<boolean>
}
