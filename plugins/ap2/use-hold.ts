// The mandates of one call as a hold: reserved when they are verified, used directly before the call is sent, and
// returned when it was not.
import { randomBytes } from 'node:crypto'
import {
  type Denied,
  denied,
  type Hold,
  type Identity,
  type PluginContext,
  policyTokens,
  principalKeyOf,
  resolve,
  resolveOptional,
  token,
} from '@svc/core'
import { sha256Base64url } from '@svc/core/json'
import {
  type ClaimStore,
  claimStore,
  type DedupeClaim,
  type DedupeClaimResult,
  type Loss,
  MAX_KEYS,
  type StoreResource,
} from '@svc/core/store'
import type { VerifiedMandate } from './verify/verifier.js'

interface UseHoldOptions {
  readonly store: ClaimStore
  /** The claims of the single-use tokens. */
  readonly tokens: readonly DedupeClaim[]
  /** Whether one of the mandates may have been used before the store lost its content. */
  readonly isOlderThan: (loss: Loss) => boolean
  /** The claim that ties the idempotency key to the mandate. */
  readonly key: DedupeClaim | undefined
  /** Adds the finding of a used mandate; returns the denial, if the policy denies for it. */
  readonly replayed: () => Denied | undefined
  /** True if the policy only reports, so that the call does not depend on the store. */
  readonly isReportOnly: boolean
}

/** `other_mandate`: the idempotency key was used with another one. */
export type Reservation = 'reserved' | 'replayed' | 'other_mandate'

export class UseHold implements Hold {
  #options: UseHoldOptions
  /** The claims that the commit uses. */
  #wanted: readonly DedupeClaim[] = []
  #held = new Set<DedupeClaim>()

  constructor(options: UseHoldOptions) {
    this.#options = options
  }

  /** Rejects when the store cannot be asked. Without a reservation the commit uses nothing. */
  async reserve(): Promise<Reservation> {
    const { tokens, key } = this.#options
    if (key !== undefined) {
      const { state } = await this.#ask(key)
      if (state === 'reused') return 'other_mandate'
      if (state !== 'claimed') {
        // A repeat of the call that has the key gets its response from `dedupe`, and uses the mandates only if it is
        // sent.
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
    const { store, replayed, isReportOnly } = this.#options
    try {
      for (const claim of this.#wanted) {
        // Reserved again, as a reservation lapses in a long wait for a person.
        if (!(await this.#claim(claim)) || !(await store.markSent(claim))) return replayed()
      }
      return undefined
    } catch {
      // The store's guard has logged the cause, unless the tenant has too many keys.
      return isReportOnly ? undefined : unavailable()
    }
  }

  async release(): Promise<void> {
    await this.#end((store, claim) => store.release(claim))
  }

  /** The call was sent: mandates that it used stay used until they expire. */
  async settle(): Promise<void> {
    await this.#end(async (store, claim) => {
      await store.complete(claim, null)
    })
  }

  async #claim(claim: DedupeClaim): Promise<boolean> {
    const { isOlderThan } = this.#options
    const result = await this.#ask(claim)
    if (result.state !== 'claimed') return false
    this.#held.add(claim)
    // A mandate never fails open: one that may have been used before the loss is refused until it expires.
    if (result.loss !== undefined && isOlderThan(result.loss))
      throw new Error('the store has lost which mandates were used')
    return true
  }

  async #ask(claim: DedupeClaim): Promise<DedupeClaimResult> {
    const result = await this.#options.store.claim(claim)
    if (result.state === 'full') throw new Error('the tenant has as many keys as it may have')
    return result
  }

  /** A claim that cannot be ended now expires: as unknown, which counts as used, or as free if nothing was sent. */
  async #end(end: (store: ClaimStore, claim: DedupeClaim) => Promise<void>): Promise<void> {
    const ended = [...this.#held].map((claim) => end(this.#options.store, claim))
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

/** Milliseconds from the claim in which a call must be sent. */
const LEASE_MS = 60_000
/** How long an idempotency key stays tied to its mandate: at least as long as `dedupe` keeps keys by default. */
const KEY_TTL_MS = 86_400_000

/** One claim for each single-use token, kept until the token expires. */
export function useClaims(
  mandates: readonly VerifiedMandate[],
  tenant: string,
  now: number,
): readonly DedupeClaim[] {
  const owner = randomBytes(12).toString('base64url')
  return mandates.flatMap(({ used, expiresAt }) =>
    used.map((digest) => ({
      key: hashOf(['ap2/mandate', digest]),
      fingerprint: digest,
      owner,
      tenant,
      maxKeys: MAX_KEYS,
      leaseMs: LEASE_MS,
      // The clock of a store may be behind.
      ttlMs: Math.max(expiresAt - now, 0) + LEASE_MS,
    })),
  )
}

/** How long a mandate may live that does not state when it was issued. */
const UNSTATED_MS = 30 * 86_400_000

/** Whether the mandate may have existed before the loss. */
export function isOlderThan({ issuedAt }: VerifiedMandate, loss: Loss): boolean {
  return issuedAt === undefined ? loss.ageMs < UNSTATED_MS : issuedAt < loss.at
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
    owner: randomBytes(12).toString('base64url'),
    tenant: caller.tenant,
    maxKeys: MAX_KEYS,
    leaseMs: LEASE_MS,
    ttlMs: lastsMs + KEY_TTL_MS,
  }
}

function hashOf(parts: readonly string[]): string {
  return sha256Base64url(JSON.stringify(parts))
}

/** Opens a store like that of a `dedupe` section with its defaults. Bound by the gateway. */
export const usedMandateStore =
  token<(context: PluginContext) => StoreResource<ClaimStore>>('ap2/UsedMandateStore')

export interface UseStore {
  /** Resolved during calls, because the store of `dedupe` runs only after its stage has started. */
  running(): ClaimStore
  /** The resource that this stage has to start and stop itself. */
  readonly resource: StoreResource<ClaimStore> | undefined
}

export function useStore(context: PluginContext): UseStore {
  const { container } = context
  if (resolveOptional(container, policyTokens.claimsKeys) === true)
    return { running: () => resolve(container, claimStore), resource: undefined }
  const resource = resolveOptional(container, usedMandateStore)?.(context)
  const running = (): ClaimStore => {
    if (resource === undefined) throw new Error('there is no store for used mandates')
    return resource.running
  }
  return { running, resource }
}
