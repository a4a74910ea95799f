// The Redis adapter with batches. Unused counts are refunded; unused tokens are not, as the bucket refills.
import type { QuotaAdapter } from '@svc/core'
import { dayOf } from '../day.js'
import { keyOf } from '../key.js'
import { type Batch, Leases } from './leases.js'
import type { RedisQuotaAdapter } from './store.js'

interface LeaseOptions {
  /** The most calls per batch; never more than a tenth of what is left. */
  readonly calls: number
  /** Milliseconds that they are held. */
  readonly ms: number
  /** Milliseconds since the epoch: a batch serves the day that it was taken on. */
  readonly now?: () => number
  /** Milliseconds. */
  readonly monotonic?: () => number
}

/** Operations with `now` bypass the batches. */
export class LeasedQuotaAdapter implements QuotaAdapter {
  #store: RedisQuotaAdapter
  #calls: number
  #now: () => number
  #counts: Leases
  #tokens: Leases
  #refunds = new Set<Promise<void>>()
  #sweeper: NodeJS.Timeout

  /** Closes `store` when it is closed. */
  constructor(
    store: RedisQuotaAdapter,
    { calls, ms, now = Date.now, monotonic = () => performance.now() }: LeaseOptions,
  ) {
    this.#store = store
    this.#calls = calls
    this.#now = now
    this.#counts = new Leases(ms, monotonic)
    this.#tokens = new Leases(ms, monotonic)
    this.#sweeper = setInterval(() => this.endBatches(), ms).unref()
  }

  connect(signal: AbortSignal): Promise<void> {
    return this.#store.connect(signal)
  }

  ready(): string | undefined {
    return this.#store.ready()
  }

  async incrDaily(tenant: string, tool: string, limit: number, now?: number) {
    if (now !== undefined) return this.#store.incrDaily(tenant, tool, limit, now)
    const key = `${limit} ${dayOf(this.#now())} ${keyOf(tenant, tool)}`
    const fetch = async (): Promise<Batch> => {
      const { count, resetAt, taken } = await this.#store.countDaily(tenant, tool, limit, this.#calls)
      const unused = (left: number) => this.#track(this.#store.refundDays(tenant, tool, left, resetAt - 1))
      return { level: count, resetAt, taken, unused }
    }
    const { level, resetAt, left } = await this.#counts.take(key, fetch)
    return { count: level - left, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    if (now !== undefined) return this.#store.takeToken(tenant, tool, ratePerSec, burst, now)
    const key = `${ratePerSec} ${burst} ${keyOf(tenant, tool)}`
    const fetch = async (): Promise<Batch> => {
      const answer = await this.#store.takeTokens(tenant, tool, ratePerSec, burst, this.#calls)
      return { level: answer.tokens, resetAt: answer.resetAt, taken: answer.taken }
    }
    const { level, resetAt, left } = await this.#tokens.take(key, fetch)
    return { tokens: level + left, resetAt }
  }

  refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    return this.#store.refundDaily(tenant, tool, now)
  }

  /** Ends the batches whose time is over, or all. Resolves when their unused counts are refunded. */
  async endBatches(all = false): Promise<void> {
    this.#counts.endBatches(all)
    this.#tokens.endBatches(all)
    await Promise.all(this.#refunds)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper)
    await this.endBatches(true)
    await this.#store.close()
  }

  // A refund that fails leaves the calls counted: too few are let through, not too many.
  #track(refund: Promise<void>): void {
    const settled = refund.catch(() => undefined).finally(() => this.#refunds.delete(settled))
    this.#refunds.add(settled)
  }
}
