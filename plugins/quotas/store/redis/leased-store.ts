// The Redis adapter with batches. Unused counts are refunded; unused tokens are not, as the bucket refills.
import type { QuotaAdapter } from '@svc/core'
import { dayOf, keyOf } from '../token-bucket.js'
import type { RedisQuotaAdapter } from './store.js'

interface LeaseOptions {
  /** Maximum number of calls per batch; never more than a tenth of the remaining calls. */
  readonly calls: number
  /** Milliseconds for which a batch is held. */
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
      const day = { unit: 'day', tool, callsPerDay: limit } as const
      const { value, resetAt, taken } = await this.#store.count(tenant, day, this.#calls)
      const unused = (left: number) => this.#track(this.#store.refundDays(tenant, tool, left, resetAt - 1))
      return { level: value, resetAt, taken, unused }
    }
    const { level, resetAt, left } = await this.#counts.take(key, fetch)
    return { count: level - left, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    if (now !== undefined) return this.#store.takeToken(tenant, tool, ratePerSec, burst, now)
    const key = `${ratePerSec} ${burst} ${keyOf(tenant, tool)}`
    const fetch = async (): Promise<Batch> => {
      const rate = { unit: 'rate', tool, ratePerSec, burst } as const
      const { value, resetAt, taken } = await this.#store.count(tenant, rate, this.#calls)
      return { level: value, resetAt, taken }
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

  // A refund that fails leaves the calls counted: too few calls are allowed, not too many.
  #track(refund: Promise<void>): void {
    const settled = refund.catch(() => undefined).finally(() => this.#refunds.delete(settled))
    this.#refunds.add(settled)
  }
}

interface Batch {
  /** Number of calls taken; 0 if the store refused. */
  readonly taken: number
  /** The store's response: tokens left, or the count including the whole batch. */
  readonly level: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Called with the number of unused calls when the batch ends. */
  readonly unused?: (left: number) => void
}

interface Held {
  readonly batch: Batch
  /** Milliseconds, monotonic. */
  readonly until: number
  left: number
}

class Leases {
  #ms: number
  #monotonic: () => number
  #held = new Map<string, Held>()
  #fetching = new Map<string, Promise<Batch>>()

  /** A batch is held for `ms` milliseconds of the clock `monotonic`. */
  constructor(ms: number, monotonic: () => number) {
    this.#ms = ms
    this.#monotonic = monotonic
  }

  /**
   * One call, from the current batch or a new one; calls that arrive during a fetch wait for it. `left` remain in the
   * batch. `key` contains everything that `fetch` depends on.
   */
  async take(key: string, fetch: () => Promise<Batch>): Promise<Batch & { left: number }> {
    for (;;) {
      const held = this.#held.get(key)
      if (held !== undefined && held.left > 0 && !this.#isOver(held)) {
        held.left--
        return { ...held.batch, left: held.left }
      }
      const batch = await (this.#fetching.get(key) ?? this.#fetch(key, fetch))
      if (batch.taken === 0) return { ...batch, left: 0 }
    }
  }

  /** Ends the batches whose time is over, or all. */
  endBatches(all = false): void {
    for (const [key, held] of this.#held) if (all || this.#isOver(held)) this.#drop(key, held)
  }

  async #fetch(key: string, fetch: () => Promise<Batch>): Promise<Batch> {
    const until = this.#monotonic() + this.#ms
    const fetching = fetch()
    this.#fetching.set(key, fetching)
    try {
      const batch = await fetching
      const old = this.#held.get(key)
      if (old !== undefined) this.#drop(key, old)
      if (batch.taken > 0) this.#held.set(key, { batch, until, left: batch.taken })
      return batch
    } finally {
      this.#fetching.delete(key)
    }
  }

  #isOver({ until }: Held): boolean {
    return this.#monotonic() >= until
  }

  #drop(key: string, { batch, left }: Held): void {
    this.#held.delete(key)
    if (left > 0) batch.unused?.(left)
  }
}
