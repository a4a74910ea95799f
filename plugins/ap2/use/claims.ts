// Claims in the store of idempotency keys: a mandate is good for one call, and an idempotency key for one mandate.
import { randomBytes } from 'node:crypto'
import { type DedupeClaim, type Identity, principalKeyOf } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { VerifiedMandate } from '../verify/verifier.js'

/** Milliseconds in which a call that claimed is sent. */
const LEASE_MS = 60_000
/** How long an idempotency key stays tied to its mandate: at least as long as `dedupe` keeps keys by default. */
const KEY_TTL_MS = 86_400_000

/** One claim for each token that is good for one use, kept until it expires. */
export function useClaims(mandates: readonly VerifiedMandate[], now: number): readonly DedupeClaim[] {
  const owner = randomBytes(16).toString('base64url')
  return mandates.flatMap(({ used, expiresAt }) =>
    used.map((digest) => ({
      key: hashOf(['ap2/mandate', digest]),
      fingerprint: digest,
      owner,
      leaseMs: LEASE_MS,
      // The clock of a store may be behind.
      ttlMs: Math.max(expiresAt - now, 0) + LEASE_MS,
    })),
  )
}

interface KeyedCall {
  readonly caller: Identity
  readonly server: string
  readonly name: string
  readonly idempotencyKey: string
}

/** Another mandate under the same idempotency key has another fingerprint. */
export function keyClaim(
  { caller, server, name, idempotencyKey }: KeyedCall,
  mandates: readonly VerifiedMandate[],
  now: number,
): DedupeClaim {
  const digests = mandates.map(({ digest }) => digest).sort()
  const lastsMs = Math.max(...mandates.map(({ expiresAt }) => expiresAt - now), 0)
  return {
    key: hashOf(['ap2/key', principalKeyOf(caller), server, name, idempotencyKey]),
    fingerprint: hashOf(digests),
    owner: randomBytes(16).toString('base64url'),
    leaseMs: LEASE_MS,
    ttlMs: lastsMs + KEY_TTL_MS,
  }
}

function hashOf(parts: readonly string[]): string {
  return sha256Hex(JSON.stringify(parts))
}
