// The storage interface for idempotency keys: which call holds a key, whether it was sent, and its response.
import type { StoreLifecycle } from './store-lifecycle.js'

/** A call's claim of its key. */
export interface DedupeClaim {
  /** A hash of fixed length. */
  readonly key: string
  /** Hash of the request: another hash under the same key means another request. */
  readonly fingerprint: string
  /** Random and unique to this attempt. */
  readonly owner: string
  /** Milliseconds after which the claim expires unless it is renewed. */
  readonly leaseMs: number
  /** Milliseconds for which an outcome is kept. */
  readonly ttlMs: number
}

/** The state of the key that a claim was made for. */
export type DedupeClaimResult =
  /** The key now belongs to the claim. */
  | { readonly state: 'claimed' }
  /** Another call with this key is in flight. */
  | { readonly state: 'in_flight' }
  /** A call with this key has completed; null if its response was not kept. */
  | { readonly state: 'completed'; readonly response: Uint8Array | null }
  /** A call with this key was sent, and its outcome is unknown. */
  | { readonly state: 'unknown' }
  /** The key was used for a request with another fingerprint. */
  | { readonly state: 'reused' }

/**
 * A key is free, claimed, sent, completed or unknown. A claim that lapses is free again; one that lapses after it was
 * marked as sent is unknown. Every operation is atomic, and those that take a claim do nothing for one that does not
 * own its key. Operations reject when the store cannot be asked; the call is then refused.
 */
export interface DedupeStore extends StoreLifecycle {
  /** Claims a free key; otherwise returns its state unchanged. For the owner of the claim it succeeds again. */
  claim(claim: DedupeClaim): Promise<DedupeClaimResult>
  /** Resolves when the mark is durable. False: the claim no longer owns the key, and the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean>
  /** Extends the claim by `leaseMs`. False: the claim no longer owns the key. */
  renew(claim: DedupeClaim): Promise<boolean>
  /** Frees the key of a call that was not sent. */
  release(claim: DedupeClaim): Promise<void>
  /**
   * Stores the response of a call that was sent, or null for a response that is not kept, even if the key has expired.
   * False: another claim owns the key.
   */
  complete(claim: DedupeClaim, response: Uint8Array | null): Promise<boolean>
  /** Like `complete`, for a call that was sent and whose outcome is unknown. */
  markUnknown(claim: DedupeClaim): Promise<boolean>
}
