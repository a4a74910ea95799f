// The claims of this process: renewed while their calls run, and ended with them. They survive a reload, as the calls
// of the old policy end under them.
import { randomBytes } from 'node:crypto'
import {
  type Call,
  type CallRequest,
  type Denied,
  denied,
  type Hold,
  identity,
  principalKeyOf,
  repeatableInput,
} from '@svc/core'
import { sha256Base64url } from '@svc/core/json'
import type { ClaimStore, DedupeClaim, DedupeClaimResult } from '@svc/core/store'
import { type WaitDeadline, WaitQueue } from './wait-queue.js'

/** The end of a call: null if its response is not kept, undefined if its outcome is unknown. */
type End = { readonly response: Uint8Array | null | undefined } | 'released'

/** An end that the store did not take is repeated at so many renewals, and so many ends are kept. */
const MAX_ATTEMPTS = 30
const MAX_UNSAVED = 1000

export class RunningClaims {
  #store: ClaimStore
  #queue: WaitQueue
  #running = new Set<DedupeClaim>()
  #unsaved = new Map<DedupeClaim, { readonly end: End; attempts: number }>()
  #timer: NodeJS.Timeout

  /** A claim stands for `leaseMs` milliseconds and is renewed three times in them. */
  constructor(store: ClaimStore, leaseMs: number) {
    this.#store = store
    this.#queue = new WaitQueue(this)
    this.#timer = setInterval(() => void this.#renew(), leaseMs / 3).unref()
  }

  /** Rejects when the store cannot be asked. A granted claim has to be ended. */
  async claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    const result = await this.#store.claim(claim)
    if (result.state === 'claimed') this.#running.add(claim)
    return result
  }

  /** Like `WaitQueue.wait`. */
  wait(claim: DedupeClaim, deadline: WaitDeadline): Promise<DedupeClaimResult> {
    return this.#queue.wait(claim, deadline)
  }

  /** False, or rejects when the store cannot be asked: the call must not be sent. */
  markSent(claim: DedupeClaim): Promise<boolean> {
    return this.#store.markSent(claim)
  }

  /**
   * The call was not sent, or had no effect. Never rejects: an end that the store does not take now is repeated later.
   */
  release(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, 'released')
  }

  /** Like `release`, for a call that has completed; null for a response that is not kept. */
  complete(claim: DedupeClaim, response: Uint8Array | null): Promise<void> {
    return this.#end(claim, { response })
  }

  /** Like `release`, for a call whose outcome is unknown. */
  markUnknown(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, { response: undefined })
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
    const { response } = end
    return response === undefined ? this.#store.markUnknown(claim) : this.#store.complete(claim, response)
  }

  async #renew(): Promise<void> {
    await this.#retryUnsaved()
    const renewals = [...this.#running].map(async (claim) => {
      // A call that lost its claim may still save its outcome.
      if (!(await this.#store.renew(claim))) this.#running.delete(claim)
    })
    // The store's guard logs a failed renewal; the next renewal tries again.
    await Promise.allSettled([...renewals, this.#store.noticeLoss()])
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
  #claims: RunningClaims
  #claim: DedupeClaim

  constructor(claims: RunningClaims, claim: DedupeClaim) {
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

export interface ClaimRule {
  readonly namespace: string
  /** The tenant of callers without an identity. */
  readonly tenant: string
  readonly leaseMs: number
  readonly ttlMs: number
  /** Of a tenant. */
  readonly maxKeys: number
}

/**
 * The key is a hash of namespace, principal, server, tool, idempotency key and, over MCP, the round. The fingerprint is
 * a hash of the protocol, the input and, if the caller chose it, the version: the same key with another version is a
 * different request under the same key.
 */
export function claimOf(call: Call, request: CallRequest, rule: ClaimRule): DedupeClaim {
  const { server, name, version, idempotencyKey, round = '' } = request
  const { namespace, tenant, leaseMs, ttlMs, maxKeys } = rule
  const isMcp = call.protocol === 'mcp'
  const caller = call.get(identity) ?? { tenant, authenticated: false }
  return {
    key: digest([namespace, principalKeyOf(caller), server, name, idempotencyKey, round]),
    // Over MCP the version is the server's, which may change between a call and its repeat.
    fingerprint: digest([isMcp ? 'mcp' : 'invoke', isMcp ? '' : version, repeatableInput(request)]),
    owner: randomBytes(12).toString('base64url'),
    tenant: caller.tenant,
    leaseMs,
    ttlMs,
    maxKeys,
  }
}

function digest(parts: readonly (string | null)[]): string {
  return sha256Base64url(JSON.stringify(parts))
}
