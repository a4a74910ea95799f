// Claims of keys for one use each: idempotency keys of calls, and mandates. A claim is free, claimed, sent, completed or
// unknown. One that lapses is free again; one that lapses after it was marked as sent is unknown.
import { isUtf8 } from 'node:buffer'
import type { Entry, Space, Write } from '../plugin/key-value-store.js'
import { token } from '../plugin/tokens.js'
import { readLoss, retried, StoreLayer, storableName, trackedSpaces } from './layer.js'

/** A call's claim of its key. */
export interface DedupeClaim {
  /** A hash of fixed length. */
  readonly key: string
  /** A tenant that has about `maxKeys` gets no new ones. */
  readonly tenant: string
  readonly maxKeys: number
  /** Hash of the request: another hash under the same key means another request. */
  readonly fingerprint: string
  /** Random and unique to this attempt. */
  readonly owner: string
  /** Milliseconds after which the claim expires unless it is renewed. */
  readonly leaseMs: number
  /** Milliseconds for which an outcome is kept. */
  readonly ttlMs: number
}

/** When a store began anew that has lost what it kept: an earlier use of a key is not known. */
export interface Loss {
  /** Milliseconds since the epoch, by the clock of the store. */
  readonly at: number
  /** Milliseconds since then. */
  readonly ageMs: number
}

/** The state of the key that a claim was made for. */
export type DedupeClaimResult =
  /** The key now belongs to the claim. */
  | { readonly state: 'claimed'; readonly loss?: Loss }
  /** A call with this key has completed; null if its response was not kept. */
  | { readonly state: 'completed'; readonly response: Uint8Array | null }
  /**
   * Another call with this key is in flight, or was sent with an unknown outcome; the key was used for a request with another
   * fingerprint; or the tenant has as many keys as it may have.
   */
  | { readonly state: 'in_flight' | 'unknown' | 'reused' | 'full' }

/** A letter begins the version, as Redis gets it with each request. */
const phases = { claimed: 'c', sent: 's', completed: 'd', unknown: 'u' } as const
type Phase = keyof typeof phases

/** The store of the claims of idempotency keys, while its stage runs. */
export const claimStore = token<ClaimStore>('ClaimStore')

/** Enough for 18 keys a second of a tenant, if each is kept for a day. */
export const MAX_KEYS = 1_600_000
const spaces = trackedSpaces('claims')

/** Every operation is atomic. Those that take a claim do nothing for one that does not own its key. */
export class ClaimStore extends StoreLayer {
  /** So that a loss is noticed for keys that this process has not used, as `readLoss` says. */
  async noticeLoss(): Promise<void> {
    await readLoss(this.store, spaces)
  }

  /** Claims a free key; otherwise returns its state unchanged. For the owner of the claim it succeeds again. */
  claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    let expect: string | null = null
    return retried(async () => {
      const write = writeOf(claim, 'claimed', expect, claim.leaseMs)
      const { isDone, isFull, entries, lostAt, now } = await this.store.commit(spaceOf(claim), [write])
      if (isDone) return { state: 'claimed', ...(lostAt && { loss: { at: lostAt, ageMs: now - lostAt } }) }
      if (isFull === true) return { state: 'full' }
      const [entry] = entries
      expect = entry?.version ?? null
      const result = entry && resultOf(entry, claim, now)
      return result?.state === 'claimed' ? undefined : result
    })
  }

  /** Resolves when the mark is durable. False: the claim no longer owns the key, and the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean> {
    const ttlMs = claim.leaseMs + claim.ttlMs
    return this.#change(claim, 'claimed', (expect) => writeOf(claim, 'sent', expect, ttlMs))
  }

  /** Extends the claim by `leaseMs`. False: the claim no longer owns the key. */
  renew(claim: DedupeClaim): Promise<boolean> {
    const { leaseMs, ttlMs } = claim
    return this.#change(claim, 'sent', (expect) =>
      expect === versionOf(claim, 'sent')
        ? writeOf(claim, 'sent', expect, leaseMs + ttlMs)
        : writeOf(claim, 'claimed', expect, leaseMs),
    )
  }

  /** Frees the key of a call that was not sent, or had no effect. */
  async release(claim: DedupeClaim): Promise<void> {
    const owner = storableName(claim.tenant)
    await this.#change(claim, 'claimed', (expect) => ({ key: claim.key, owner, version: 'free', expect }))
  }

  /**
   * Stores the response of a call that was sent, or null for a response that is not kept, even if the key has expired.
   * False: another claim owns the key.
   */
  complete(claim: DedupeClaim, response: Uint8Array | null): Promise<boolean> {
    return this.#end(claim, 'completed', response)
  }

  /** Like `complete`, for a call that was sent and whose outcome is unknown. */
  markUnknown(claim: DedupeClaim): Promise<boolean> {
    return this.#end(claim, 'unknown', null)
  }

  #end(claim: DedupeClaim, phase: Phase, response: Uint8Array | null): Promise<boolean> {
    const write = (expect: string | null) => writeOf(claim, phase, expect, claim.ttlMs, response)
    return this.#change(claim, 'sent', write, (version) => version?.slice(2) ?? claim.owner)
  }

  /** Writes in place of the claim in this phase, or else of what it is the owner of. */
  #change(
    claim: DedupeClaim,
    phase: 'claimed' | 'sent',
    write: (expect: string | null) => Write,
    holderOf = runningHolder,
  ): Promise<boolean> {
    let expect: string | null = versionOf(claim, phase)
    const isDurable = phase === 'claimed'
    return retried(async () => {
      const { isDone, entries } = await this.store.commit(spaceOf(claim), [write(expect)], { isDurable })
      if (isDone) return true
      expect = entries[0]?.version ?? null
      return holderOf(entries[0]?.version) === claim.owner ? undefined : false
    })
  }
}

function writeOf(
  claim: DedupeClaim,
  phase: Phase,
  expect: string | null,
  ttlMs: number,
  response: Uint8Array | null = null,
): Write {
  const { key, tenant, fingerprint, leaseMs } = claim
  const value = `${fingerprint} ${leaseMs}${response === null ? '' : ` ${textOf(response)}`}`
  return { key, value, owner: storableName(tenant), version: versionOf(claim, phase), expect, ttlMs }
}

/** The key is a hash, or any text in tests. */
function spaceOf({ key, maxKeys }: DedupeClaim): Space {
  let sum = 0
  for (let i = 0; i < key.length; i++) sum = (sum * 31 + key.charCodeAt(i)) % spaces.length
  return { ...(spaces[sum] as Space), maxOwned: Math.ceil(maxKeys / spaces.length) }
}

function versionOf({ owner }: DedupeClaim, phase: Phase): string {
  return `${phases[phase]}:${owner}`
}

/** The owner of a claim whose call has not ended. */
function runningHolder(version: string | undefined): string | undefined {
  return version === undefined ? undefined : /^[cs]:(.*)$/.exec(version)?.[1]
}

/** The result of a claim; `claimed` means that it may have the key. */
function resultOf(entry: Entry, claim: DedupeClaim, now: number): DedupeClaimResult {
  const { phase, fingerprint, leaseMs, response } = readClaim(entry)
  const leftMs = entry.writtenAt + leaseMs - now
  // Two leases or more are left after a clock was set back; a little more than one, if clocks or roundings differ.
  const isLeased = leftMs > 0 && leftMs < 2 * leaseMs
  if (phase === 'claimed' && (entry.version === versionOf(claim, 'claimed') || !isLeased))
    return { state: 'claimed' }
  if (fingerprint !== claim.fingerprint) return { state: 'reused' }
  if (phase === 'completed') return { state: 'completed', response }
  if (phase === 'unknown' || !isLeased) return { state: 'unknown' }
  return { state: 'in_flight' }
}

/** @throws {Error} if the entry is not a claim */
function readClaim({ version, value }: Entry) {
  const phase = Object.entries(phases).find(([, letter]) => version.startsWith(`${letter}:`))?.[0]
  const [, fingerprint, lease, form, response = ''] = /^(\S+) (\d+)(?: ([tb])(.*))?$/s.exec(value) ?? []
  const leaseMs = Number(lease)
  if (phase === undefined || fingerprint === undefined || !(leaseMs > 0))
    throw new Error('a stored claim cannot be read')
  const bytes = form === undefined ? null : Buffer.from(response, form === 't' ? 'utf8' : 'base64')
  return { phase, fingerprint, leaseMs, response: bytes }
}

/** Text as it is, which most responses are, as base64 would be a third longer. */
function textOf(response: Uint8Array): string {
  const bytes = Buffer.from(response.buffer, response.byteOffset, response.byteLength)
  return isUtf8(bytes) ? `t${bytes.toString()}` : `b${bytes.toString('base64')}`
}
