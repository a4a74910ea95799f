// The storage interface for idempotency keys: which call holds a key, whether it was sent, and its answer.
import type { StoreLifecycle } from './store-lifecycle.js'

/** A call's claim of its key. */
export interface DedupeClaim {
  /** A hash, of fixed length. */
  readonly key: string
  /** Hash of the request: another fingerprint under the same key is a different request. */
  readonly fingerprint: string
  /** Random and unique to this attempt. */
  readonly owner: string
  /** Milliseconds after which the claim expires unless it is renewed. */
  readonly leaseMs: number
  /** Milliseconds for which an outcome is kept. */
  readonly ttlMs: number
}

/** The result of a claim. */
export type DedupeClaimResult =
  /** The key now belongs to the claim. */
  | { readonly state: 'claimed' }
  /** Another call with this key is in flight. */
  | { readonly state: 'in_flight' }
  /** A call with this key was answered; null where the answer was not kept. */
  | { readonly state: 'answered'; readonly answer: Uint8Array | null }
  /** A call with this key was sent, and its outcome is unknown. */
  | { readonly state: 'unknown' }
  /** The key was used for a request with another fingerprint. */
  | { readonly state: 'reused' }

/**
 * A key is free, claimed, sent, answered or unknown. A key whose claim expires is free again, or unknown if it was marked
 * as sent. Every operation is atomic, and has no effect for a claim that does not own its key. Operations reject when
 * the store is not available; the call is then refused.
 */
export interface DedupeStore extends StoreLifecycle {
  /** Claims a free key; otherwise returns its state unchanged. For the owner of the claim it succeeds again. */
  claim(claim: DedupeClaim): Promise<DedupeClaimResult>
  /** Resolves when that is durable. False: the claim no longer owns the key, and the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean>
  /** Extends the claim by `leaseMs`. False: the claim no longer owns the key. */
  renew(claim: DedupeClaim): Promise<boolean>
  /** Frees the key of a call that was not sent. */
  release(claim: DedupeClaim): Promise<void>
  /**
   * Stores the answer of a call that was sent, null for one that is not kept; also where the key has expired meanwhile.
   * False: another claim owns the key.
   */
  complete(claim: DedupeClaim, answer: Uint8Array | null): Promise<boolean>
  /** Marks the outcome of a call that was sent as unknown; as `complete`. */
  markUnknown(claim: DedupeClaim): Promise<boolean>
}
