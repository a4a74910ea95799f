// The states of a key, for the stores in JavaScript; `redis/scripts.ts` has the same in Lua.
import type { DedupeClaim, DedupeClaimResult } from '@svc/core'

export const phases = ['claimed', 'sent', 'completed', 'unknown'] as const

export interface Entry {
  readonly phase: (typeof phases)[number]
  readonly fingerprint: string
  readonly owner: string
  /** Milliseconds. */
  readonly leaseMs: number
  /** Milliseconds since the epoch. */
  readonly leaseUntil: number
  /** Milliseconds since the epoch at which the entry expires. */
  readonly expiresAt: number
  /** The response in the phase `completed`; null if it was not kept. */
  readonly response: Uint8Array | null
}

/** The result of a claim; `claimed` means that it may have the key. */
export function resultOf(entry: Entry | undefined, claim: DedupeClaim, now: number): DedupeClaimResult {
  if (entry === undefined || now >= entry.expiresAt) return { state: 'claimed' }
  const { phase, owner, fingerprint, response } = entry
  const leftMs = entry.leaseUntil - now
  // Two leases or more are left after a clock was set back; a little more than one, if clocks or roundings differ.
  const isLeased = leftMs > 0 && leftMs < 2 * entry.leaseMs
  if (phase === 'claimed' && (owner === claim.owner || !isLeased)) return { state: 'claimed' }
  if (fingerprint !== claim.fingerprint) return { state: 'reused' }
  if (phase === 'completed') return { state: 'completed', response }
  if (phase === 'unknown' || !isLeased) return { state: 'unknown' }
  return { state: 'in_flight' }
}

export function claimed(claim: DedupeClaim, now: number): Entry {
  return {
    ...owned(claim),
    phase: 'claimed',
    leaseUntil: now + claim.leaseMs,
    expiresAt: now + claim.leaseMs,
  }
}

export function sent(claim: DedupeClaim, now: number): Entry {
  const leaseUntil = now + claim.leaseMs
  return { ...owned(claim), phase: 'sent', leaseUntil, expiresAt: leaseUntil + claim.ttlMs }
}

export function ended(claim: DedupeClaim, now: number, response: Uint8Array | null | undefined): Entry {
  const phase = response === undefined ? 'unknown' : 'completed'
  return { ...owned(claim), phase, leaseUntil: now, expiresAt: now + claim.ttlMs, response: response ?? null }
}

/** Whether the call of this claim is running, according to the store. */
export function isRunning(entry: Entry | undefined, { owner }: DedupeClaim, now: number): entry is Entry {
  if (entry?.owner !== owner || now >= entry.expiresAt) return false
  return entry.phase === 'claimed' || entry.phase === 'sent'
}

/** Whether the outcome of this claim may replace what the store has. */
export function mayEnd(entry: Entry | undefined, { owner }: DedupeClaim, now: number): boolean {
  return entry === undefined || entry.owner === owner || now >= entry.expiresAt
}

function owned({ fingerprint, owner, leaseMs }: DedupeClaim) {
  return { fingerprint, owner, leaseMs, response: null }
}
