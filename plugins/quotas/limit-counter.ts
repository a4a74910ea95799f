// What a limited call gets while the store is down: `failure_mode` decides.
import type { QuotaAdapter } from '@svc/core'
import { instantOf } from './answer-checks.js'
import type { QuotasConfig } from './config.js'
import type { MemoryQuotaAdapter } from './store/memory/store.js'

export interface Count {
  readonly count: number
  readonly resetAt: number
  /** Gives the count back to the store that took it. */
  readonly refund?: () => Promise<void>
}

export class LimitCounter {
  #store: QuotaAdapter
  #failureMode: QuotasConfig['failure_mode']
  #local: MemoryQuotaAdapter | undefined

  /** `local` counts while the store is down, in the failure mode `local`. */
  constructor(
    store: QuotaAdapter,
    failureMode: QuotasConfig['failure_mode'],
    local: MemoryQuotaAdapter | undefined,
  ) {
    this.#store = store
    this.#failureMode = failureMode
    this.#local = local
  }

  /** As `QuotaAdapter.takeToken`; undefined lets the call through. Rejects when the call must be refused. */
  takeToken(tenant: string, key: string, rate: number, burst: number | undefined) {
    return this.#count(
      async () => {
        const { tokens, resetAt } = await this.#store.takeToken(tenant, key, rate, burst)
        return { tokens, resetAt: instantOf(resetAt) }
      },
      (local) => local.takeToken(tenant, key, rate, burst),
    )
  }

  /** As `QuotaAdapter.incrDaily`; undefined lets the call through. Rejects when the call must be refused. */
  incrDaily(tenant: string, key: string, limit: number): Promise<Count | undefined> {
    return this.#count<Count>(
      async () => {
        const { count, resetAt } = await this.#store.incrDaily(tenant, key, limit)
        const answer = { count, resetAt: instantOf(resetAt) }
        // When the store goes down, the local count continues from here.
        this.#local?.observe(tenant, key, Math.min(answer.count, limit))
        if (this.#store.refundDaily === undefined) return answer
        return { ...answer, refund: () => this.#refund(tenant, key, answer.resetAt - 1) }
      },
      async (local) => {
        const answer = await local.incrDaily(tenant, key, limit)
        return { ...answer, refund: () => local.refundDaily(tenant, key, answer.resetAt - 1) }
      },
    )
  }

  async #count<T>(
    inStore: () => Promise<T>,
    inProcess: (local: MemoryQuotaAdapter) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await inStore()
    } catch (fault) {
      if (this.#failureMode === 'closed') throw fault
      return this.#local && inProcess(this.#local)
    }
  }

  async #refund(tenant: string, key: string, now: number): Promise<void> {
    try {
      await this.#store.refundDaily?.(tenant, key, now)
    } catch (fault) {
      // A count too many refuses a call some day; it is no reason to fail one that is let through.
      if (this.#failureMode === 'closed') throw fault
    }
  }
}
