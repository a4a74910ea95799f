// The port to counters: what may be used of limits and budgets, of which one operation takes all or none. Adapters are in
// memory, LMDB and Redis.
import type { MaybePromise } from '../call/maybe-promise.js'
import type { Space } from './key-value-store.js'
import type { StoreLifecycle } from './store-lifecycle.js'

/** Periods of one length. A calendar's period, such as a month in a time zone, is given by its own start and length. */
export interface CounterWindow {
  readonly ms: number
  /** When one of them begins, in milliseconds since the epoch. Default: the epoch, at which days of UTC begin. */
  readonly from?: number | undefined
}

export interface Counter {
  /** 1 to 300 printable characters of ASCII without spaces. */
  readonly key: string
  /** The count begins anew in each. Without one, what is used stays used until it is given back, such as calls in flight. */
  readonly window?: CounterWindow | undefined
}

/** Amounts and limits are whole numbers, in the smallest unit that the caller counts; those of buckets may have fractions. */
export interface CounterLimit extends Counter {
  /** The most that may be used; of a bucket, its size. */
  readonly max: number
  /** Makes it a token bucket, which has no window: the tokens that it regains in a second. */
  readonly perSecond?: number | undefined
  /** The amount to take. Default: 1. */
  readonly amount?: number | undefined
}

/** Reserves what is taken until the time is over, as the holder may have crashed. Buckets have no holds. */
export interface CounterHold {
  /** Taking again with the same id takes nothing more, and prolongs the hold. 1 to 100 printable characters but `:`. */
  readonly id: string
  readonly ms: number
}

export interface TakeOptions {
  readonly hold?: CounterHold | undefined
  /** Takes up to so many times the amount of each limit, at most a tenth of what is left, so that the last are taken one by one. */
  readonly batch?: number | undefined
  /** Counts for this instant in place of the time of the store; milliseconds since the epoch. */
  readonly at?: number | undefined
}

export interface CounterUse {
  /** The rest of the limit afterwards; 0 at least. */
  readonly left: number
  /** When the bucket is full, the window ends or the next hold ends; of a bucket that refuses, when it has enough. */
  readonly resetAt: number
  /** How many times the amount was taken; 0 if nothing was. */
  readonly taken: number
}

export interface Taken {
  /** False if one of the limits refuses: then nothing was taken of any. */
  readonly isTaken: boolean
  /** In the order of the limits; up to the first that refuses. */
  readonly uses: readonly CounterUse[]
  /** The instant that it counted for, in milliseconds since the epoch; `settle` finds the windows by it. */
  readonly at: number
  /** Of a tracked space: when it began anew after its content was lost, in the time of the store. */
  readonly lostAt?: number | undefined
}

export interface CounterChange extends Counter {
  /** What is used in place of the hold; without a hold what is added, or given back if it is negative. */
  readonly amount: number
}

export interface SettleOptions {
  /** From the response to `take`. */
  readonly at: number
  /** The hold that ends. */
  readonly hold?: string | undefined
}

/** Each operation is atomic for all that share the store, and throws or rejects when it fails: then it may have been carried out. */
export interface Counters extends StoreLifecycle {
  /** New counters beyond the `maxOwned` of the space are refused; in Redis it has 100,000 by default. */
  take(space: Space, limits: readonly CounterLimit[], options?: TakeOptions): MaybePromise<Taken>
  /** All or none. False: the time of a hold was over. */
  settle(space: Space, changes: readonly CounterChange[], options: SettleOptions): MaybePromise<boolean>
}
