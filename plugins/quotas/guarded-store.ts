// What happens to a call while the store is down: every question has a deadline, every answer is checked, and a
// failure is what the policy makes of it.

import type { Clock, Logger, Meter, QuotaAdapter } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AnswerDeadline, atOnce } from '@svc/core/store'
import { checkedBucket, checkedDay } from './answers.js'
import type { QuotasConfig } from './config.js'
import { MemoryQuotaAdapter } from './memory/adapter.js'

export interface GuardedStoreOptions {
  readonly timeoutMs: number
  readonly failureMode: QuotasConfig['failure_mode']
  /** Counts while the store is down; needed for the failure mode `local`, and not used otherwise. */
  readonly local?: MemoryQuotaAdapter | undefined
  readonly clock: Clock
  readonly logger?: Logger | undefined
  readonly meter?: Meter | undefined
}

export interface Counted {
  readonly count: number
  readonly resetAt: number
  /** Gives the count back to whoever counted it. */
  readonly refund?: (() => Promise<void>) | undefined
}

/** Milliseconds between two log lines about a store that is down. */
const REPORT_EVERY = 10_000

const consequences = {
  closed: 'limited calls are refused',
  open: 'limited calls are let through uncounted',
  local: 'limited calls are counted in this process alone',
} as const

export class GuardedStore {
  #adapter: QuotaAdapter
  #options: GuardedStoreOptions
  #deadline: Pick<AnswerDeadline, 'isSilent' | 'run'>
  #local: MemoryQuotaAdapter | undefined
  #failures = 0
  #reportAt = Number.NEGATIVE_INFINITY

  constructor(adapter: QuotaAdapter, options: GuardedStoreOptions) {
    this.#adapter = adapter
    this.#options = options
    this.#deadline =
      adapter instanceof MemoryQuotaAdapter
        ? atOnce
        : new AnswerDeadline('the quota store', options.timeoutMs, options.clock)
    this.#local = options.failureMode === 'local' ? options.local : undefined
  }

  /** Why limited calls would be refused; undefined while they would not. */
  ready(): string | undefined {
    if (this.#options.failureMode !== 'closed') return undefined
    if (this.#deadline.isSilent) return 'the quota store does not answer'
    return this.#adapter.ready?.()
  }

  /** As `QuotaAdapter.takeToken`; undefined lets the call through. Rejects when the call must be refused. */
  takeToken(tenant: string, key: string, rate: number, burst: number | undefined) {
    return this.#ask(
      async () => checkedBucket(await this.#adapter.takeToken(tenant, key, rate, burst)),
      (local) => local.takeToken(tenant, key, rate, burst),
      () => undefined,
    )
  }

  /** As `QuotaAdapter.incrDaily`; undefined lets the call through. Rejects when the call must be refused. */
  async incrDaily(tenant: string, key: string, limit: number): Promise<Counted | undefined> {
    const fromStore = async (): Promise<Counted> => {
      const answer = checkedDay(await this.#adapter.incrDaily(tenant, key, limit))
      // So that counting goes on from here, and not from none, when the store goes down.
      this.#local?.observe(tenant, key, Math.min(answer.count, limit))
      return this.#adapter.refundDaily === undefined
        ? answer
        : { ...answer, refund: () => this.#refund(tenant, key, answer.resetAt - 1) }
    }
    return this.#ask<Counted>(
      fromStore,
      async (local) => {
        const answer = await local.incrDaily(tenant, key, limit)
        return { ...answer, refund: () => local.refundDaily(tenant, key, answer.resetAt - 1) }
      },
      ({ count, refund }) => {
        if (count <= limit) refund?.().catch((fault: unknown) => this.#report(fault))
      },
    )
  }

  async #ask<T>(
    ofStore: () => Promise<T>,
    ofLocal: (local: MemoryQuotaAdapter) => Promise<T>,
    giveBack: (answer: T) => void,
  ): Promise<T | undefined> {
    const { failureMode } = this.#options
    try {
      // The call that an answer came too late for was refused in closed mode alone: elsewhere it counts.
      return await this.#deadline.run(ofStore, (late) => failureMode === 'closed' && giveBack(late))
    } catch (fault) {
      this.#report(fault)
      if (failureMode === 'closed') throw fault
      if (this.#local === undefined) return undefined
      return ofLocal(this.#local)
    }
  }

  async #refund(tenant: string, key: string, now: number): Promise<void> {
    const refund = async () => this.#adapter.refundDaily?.(tenant, key, now)
    try {
      await this.#deadline.run(refund, () => undefined)
    } catch (fault) {
      this.#report(fault)
      // A count too many refuses a call some day; it is no reason to fail one that is let through.
      if (this.#options.failureMode === 'closed') throw fault
    }
  }

  #report(fault: unknown): void {
    const { meter, logger, clock, failureMode } = this.#options
    this.#failures++
    meter?.count('svc_quota_store_failures_total')
    if (clock.monotonic() < this.#reportAt) return
    this.#reportAt = clock.monotonic() + REPORT_EVERY
    const fields = { fault: messageOf(fault), failures: this.#failures }
    logger?.warn(fields, `the quota store fails: ${consequences[failureMode]}`)
    this.#failures = 0
  }
}
