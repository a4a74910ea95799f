// The Redis adapter with batches. A count that was taken ahead and not used is given back; a token is not, as the
// bucket fills again by itself.
import type { QuotaAdapter } from '@svc/core'
import { dayOf } from '../day.js'
import { keyOf } from '../key.js'
import { type Batch, Leases } from './leases.js'
import type { RedisQuotaAdapter } from './store.js'

export interface LeaseOptions {
  /** Calls taken at once at most; never more than a tenth of what is left. */
  readonly calls: number
  /** Milliseconds that they are held. */
  readonly ms: number
  /** Milliseconds since the epoch: a batch serves the day that it was taken on. */
  readonly now?: () => number
  /** Milliseconds. */
  readonly monotonic?: () => number
}

/** Operations that are told the time go to the store, one by one. */
export class LeasedQuotaAdapter implements QuotaAdapter {
  #store: RedisQuotaAdapter
  #calls: number
  #now: () => number
  #counts: Leases
  #tokens: Leases
  #givingBack = new Set<Promise<void>>()
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
    this.#sweeper = setInterval(() => this.giveUp(), ms).unref()
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
      const unused = (left: number) => this.#giveBack(this.#store.refundDays(tenant, tool, left, resetAt - 1))
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

  /** Gives up the batches that were held long enough, or all of them. Resolves when they were given back. */
  async giveUp(all = false): Promise<void> {
    this.#counts.giveUp(all)
    this.#tokens.giveUp(all)
    await Promise.all(this.#givingBack)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper)
    await this.giveUp(true)
    await this.#store.close()
  }

  // One that cannot be given back stays counted: too few calls come through, not too many.
  #giveBack(giving: Promise<void>): void {
    const settled = giving.catch(() => undefined).finally(() => this.#givingBack.delete(settled))
    this.#givingBack.add(settled)
  }
}
