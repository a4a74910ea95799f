// Keys, values and counters on an ordered table, which is in memory or on disk.
import { EventEmitter } from 'node:events'
import type { MaybePromise } from '../../call/maybe-promise.js'
import type {
  CounterChange,
  CounterLimit,
  Counters,
  SettleOptions,
  TakeOptions,
} from '../../plugin/counters.js'
import type {
  CommitOptions,
  GetOptions,
  KeyValueStore,
  Scan,
  Space,
  Watch,
  Write,
} from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { TableCounters } from './counters.js'
import { StoreTime } from './host-time.js'
import { type OrderedTable, TableKeyValue } from './table.js'

/** A table that other processes use too has transactions. */
export interface SharedTable extends OrderedTable {
  transact?<T>(act: () => T): Promise<T>
  /** Makes the next read see what other processes have written; a read waits for no writer. */
  refresh?(): void
  /** Resolves when the writes are on the disk. */
  flush?(): Promise<unknown>
  /** Notices of changes, of any space and by any process. */
  watch?(changed: () => void): Watch
  close?(): Promise<void>
}

export class TableStore implements KeyValueStore, Counters {
  #table: SharedTable
  #time: StoreTime
  #values: TableKeyValue
  #counters: TableCounters
  /** Of this process, by space. */
  #changes = new EventEmitter().setMaxListeners(0)

  constructor(table: SharedTable, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#table = table
    this.#time = new StoreTime(table, clock)
    this.#values = new TableKeyValue(table, this.#time)
    this.#counters = new TableCounters(this.#values, this.#time, clock)
    // The time of a store in memory begins here, that of a store on disk with its first write.
    if (table.transact === undefined) this.#time.keep(this.#time.now())
  }

  now(): number {
    return this.#time.now()
  }

  async get(space: Space, keys: readonly string[], { follows }: GetOptions = {}) {
    this.#table.refresh?.()
    return this.#values.get(space, keys, follows)
  }

  async commit(space: Space, writes: readonly Write[], { isDurable = false, bound }: CommitOptions = {}) {
    const commit = await this.#transact(() => this.#values.commit(space, writes, bound))
    if (isDurable && commit.isDone) await this.#table.flush?.()
    if (commit.isDone && space.isWatched === true) this.#changes.emit(space.name)
    return commit
  }

  async scan(space: Space, scan: Scan) {
    this.#table.refresh?.()
    return this.#values.scan(space, scan)
  }

  watch({ name }: Space, changed: () => void): Watch {
    if (this.#table.watch !== undefined) return this.#table.watch(changed)
    this.#changes.on(name, changed)
    return { isLive: true, close: () => this.#changes.off(name, changed) }
  }

  take(space: Space, limits: readonly CounterLimit[], options?: TakeOptions) {
    // Not by `#transact`, as this is a part of most calls.
    if (this.#table.transact === undefined) return this.#counters.take(space, limits, options)
    return this.#table.transact(() => this.#counters.take(space, limits, options))
  }

  settle(space: Space, changes: readonly CounterChange[], options: SettleOptions) {
    return this.#transact(() => this.#counters.settle(space, changes, options))
  }

  warning(): string | undefined {
    return this.#counters.warning()
  }

  async close(): Promise<void> {
    await this.#table.close?.()
  }

  #transact<T>(act: () => T): MaybePromise<T> {
    return this.#table.transact === undefined ? act() : this.#table.transact(act)
  }
}
