// Batches of counters from a store that is reached over the network. Unused counts are given back; unused tokens are not, as the
// bucket refills.
import type { CounterLimit, Counters, CounterUse, Space, Taken, TakeOptions } from '@svc/core'
import { StoreLayer } from '@svc/core/store'

interface LeaseOptions {
  /** Maximum number of calls per batch; never more than a tenth of the remaining calls. */
  readonly calls: number
  /** Milliseconds for which a batch is held. */
  readonly ms: number
  /** Milliseconds. */
  readonly monotonic: () => number
}

interface Batch {
  readonly space: Space
  readonly limit: CounterLimit
  /** What the store said. */
  readonly use: CounterUse
  readonly at: number
  /** Monotonic. */
  readonly until: number
  /** How many calls are left of it. */
  left: number
}

/** Operations with options bypass the batches. */
export class LeasedCounters extends StoreLayer<Counters> implements Counters {
  #options: LeaseOptions
  #batches = new Map<string, Batch>()
  #fetching = new Map<string, Promise<Taken>>()
  #refunds = new Set<Promise<unknown>>()
  #sweeper: NodeJS.Timeout

  /** Closes `store` when it is closed. */
  constructor(store: Counters, options: LeaseOptions) {
    super(store)
    this.#options = options
    this.#sweeper = setInterval(() => this.endBatches(), options.ms).unref()
  }

  /** One call from the current batches or new ones; calls that arrive during a fetch wait for it. */
  async take(space: Space, limits: readonly CounterLimit[], options?: TakeOptions): Promise<Taken> {
    if (options !== undefined) return this.store.take(space, limits, options)
    const keys = limits.map((limit) => keyOf(space, limit))
    for (;;) {
      const missing = limits.filter((_, i) => this.#usable(keys[i] ?? '') === undefined)
      if (missing.length === 0) return this.#use(keys)
      const waiting = keys.map((key) => this.#fetching.get(key)).find((fetch) => fetch !== undefined)
      const fetched = await (waiting ?? this.#fetch(space, missing))
      if (waiting === undefined && !fetched.isTaken) return this.#refused(limits, keys, missing, fetched)
    }
  }

  settle(...change: Parameters<Counters['settle']>) {
    return this.store.settle(...change)
  }

  /** Ends the batches whose time is over, or all. Resolves when their unused counts are given back. */
  async endBatches(all = false): Promise<void> {
    for (const [key, batch] of this.#batches) if (all || this.#isOver(batch)) this.#drop(key, batch)
    await Promise.all(this.#refunds)
  }

  override async close(): Promise<void> {
    clearInterval(this.#sweeper)
    await this.endBatches(true)
    await super.close()
  }

  #usable(key: string): Batch | undefined {
    const batch = this.#batches.get(key)
    return batch !== undefined && batch.left > 0 && !this.#isOver(batch) ? batch : undefined
  }

  #isOver({ until, limit, use }: Batch): boolean {
    const isOfEndedWindow = limit.window !== undefined && (this.now?.() ?? 0) >= use.resetAt
    return isOfEndedWindow || this.#options.monotonic() >= until
  }

  #use(keys: readonly string[]): Taken {
    const batches = keys.map((key) => this.#batches.get(key)).filter((batch) => batch !== undefined)
    for (const batch of batches) batch.left--
    const uses = batches.map((batch) => ({ ...restOf(batch), taken: 1 }))
    return { isTaken: true, uses, at: Math.max(0, ...batches.map(({ at }) => at)) }
  }

  async #fetch(space: Space, limits: readonly CounterLimit[]): Promise<Taken> {
    const until = this.#options.monotonic() + this.#options.ms
    const fetching = Promise.resolve(this.store.take(space, limits, { batch: this.#options.calls }))
    const keys = limits.map((limit) => keyOf(space, limit))
    for (const key of keys) this.#fetching.set(key, fetching)
    try {
      const taken = await fetching
      if (!taken.isTaken) return taken
      for (const [i, limit] of limits.entries()) {
        const [key = '', use] = [keys[i], taken.uses[i]]
        const old = this.#batches.get(key)
        if (old !== undefined) this.#drop(key, old)
        if (use !== undefined)
          this.#batches.set(key, { space, limit, use, at: taken.at, until, left: use.taken })
      }
      return taken
    } finally {
      for (const key of keys) this.#fetching.delete(key)
    }
  }

  /** The uses of all limits up to the one that refuses; those with a batch have what is left of it. */
  #refused(
    limits: readonly CounterLimit[],
    keys: readonly string[],
    missing: readonly CounterLimit[],
    { uses, at }: Taken,
  ): Taken {
    const refusing = limits.indexOf(missing[uses.length - 1] as CounterLimit)
    const all = limits.slice(0, refusing + 1).map((limit, i) => {
      const batch = this.#batches.get(keys[i] ?? '')
      return uses[missing.indexOf(limit)] ?? (batch ? restOf(batch) : { left: 0, resetAt: at, taken: 0 })
    })
    return { isTaken: false, uses: all, at }
  }

  // A refund that fails leaves the calls counted: too few calls are allowed, not too many.
  #drop(key: string, { space, limit: { window, ...limit }, left, at }: Batch): void {
    this.#batches.delete(key)
    if (left === 0 || window === undefined) return
    const given = { key: limit.key, window, amount: -left }
    const refund = Promise.resolve(this.store.settle(space, [given], { at }))
    const settled = refund.catch(() => undefined).finally(() => this.#refunds.delete(settled))
    this.#refunds.add(settled)
  }
}

function restOf({ use, left }: Batch): CounterUse {
  return { left: use.left + left, resetAt: use.resetAt, taken: 0 }
}

/** Has all that the store is asked with. */
function keyOf({ name }: Space, { key, max, perSecond, window }: CounterLimit): string {
  return [name, key, max, perSecond, window?.ms, window?.from].join(' ')
}
