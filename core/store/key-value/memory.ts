// Keys, values and counters in the memory of this process: they are lost when it ends.

import type {
  CounterChange,
  CounterLimit,
  Counters,
  SettleOptions,
  TakeOptions,
} from '../../plugin/counters.js'
import { hostClock } from '../../plugin/host-clock.js'
import type { CommitOptions, KeyValueStore, Scan, Space, Write } from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { TableCounters } from './counters.js'
import { StoreTime } from './host-time.js'
import { SortedKeys } from './sorted-keys.js'
import { type OrderedTable, TableKeyValue } from './table.js'

/** 256 MiB of keys and values, in characters. */
const MAX_LENGTH = 268_435_456

interface MemoryKeyValueOptions {
  readonly clock?: Pick<Clock, 'now' | 'monotonic'>
  /** Maximum length of all keys and values, in characters; beyond it writes are refused. */
  readonly maxLength?: number
}

export class MemoryKeyValueStore implements KeyValueStore, Counters {
  readonly inProcess = true
  #store: TableKeyValue
  #counters: TableCounters
  #time: StoreTime

  constructor({ clock = hostClock, maxLength = MAX_LENGTH }: MemoryKeyValueOptions = {}) {
    const table = new SortedMap(maxLength)
    this.#time = new StoreTime(table, clock)
    this.#store = new TableKeyValue(table, this.#time)
    this.#counters = new TableCounters(this.#store, this.#time, clock)
    this.#time.keep(this.#time.now())
  }

  now(): number {
    return this.#time.now()
  }

  async get(
    space: Space,
    keys: readonly string[],
    { follows }: { readonly follows?: boolean | undefined } = {},
  ) {
    return this.#store.get(space, keys, follows)
  }

  async commit(space: Space, writes: readonly Write[], { bound }: CommitOptions = {}) {
    return this.#store.commit(space, writes, bound)
  }

  async scan(space: Space, scan: Scan) {
    return this.#store.scan(space, scan)
  }

  take(space: Space, limits: readonly CounterLimit[], options?: TakeOptions) {
    return this.#counters.take(space, limits, options)
  }

  settle(space: Space, changes: readonly CounterChange[], options: SettleOptions) {
    return this.#counters.settle(space, changes, options)
  }

  warning(): string | undefined {
    return this.#counters.warning()
  }
}

/** A map whose keys can be read in their order. */
class SortedMap implements OrderedTable {
  #values = new Map<string, string>()
  #keys = new SortedKeys()
  #maxLength: number
  #length = 0

  constructor(maxLength: number) {
    this.#maxLength = maxLength
  }

  get(key: string): string | undefined {
    return this.#values.get(key)
  }

  put(key: string, value: string): void {
    const before = this.#values.get(key)
    if (before === undefined) this.#keys.add(key)
    this.#length += value.length - (before?.length ?? -key.length)
    this.#values.set(key, value)
  }

  remove(key: string): void {
    const value = this.#values.get(key)
    if (value === undefined) return
    this.#keys.delete(key)
    this.#values.delete(key)
    this.#length -= key.length + value.length
  }

  keys(start: string, end: string, limit: number, isReverse = false): string[] {
    return isReverse ? this.#keys.before(start, end, limit) : this.#keys.after(start, end, limit)
  }

  makeRoom(length: number, sweep: () => number): void {
    while (this.#length + length > this.#maxLength && sweep() > 0);
    if (this.#length + length <= this.#maxLength) return
    throw new Error(`the store in memory holds ${this.#length} characters and takes no more`)
  }
}
