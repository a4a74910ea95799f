// Keys, values and counters on this host's disk, shared by its processes; they survive a restart and a crash, and end after the time
// that has passed, whatever the wall clock shows.
import type {
  CounterChange,
  CounterLimit,
  Counters,
  SettleOptions,
  TakeOptions,
} from '../../plugin/counters.js'
import type { CommitOptions, KeyValueStore, Scan, Space, Write } from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { TableCounters } from '../key-value/counters.js'
import { StoreTime } from '../key-value/host-time.js'
import { type OrderedTable, TableKeyValue } from '../key-value/table.js'
import { LmdbStore, type LmdbStoreOptions } from './store.js'

interface LmdbKeyValueOptions extends LmdbStoreOptions {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
}

export class LmdbKeyValueStore implements KeyValueStore, Counters {
  #store: LmdbStore<string>
  #time: StoreTime
  #values: TableKeyValue
  #counters: TableCounters

  /** Throws when the directory cannot be opened. */
  constructor({ clock, ...options }: LmdbKeyValueOptions) {
    this.#store = new LmdbStore<string>({ isSecret: true, ...options })
    const table = tableIn(this.#store)
    this.#time = new StoreTime(table, clock)
    this.#values = new TableKeyValue(table, this.#time)
    this.#counters = new TableCounters(this.#values, this.#time, clock)
  }

  now(): number {
    return this.#time.now()
  }

  /** Outside a transaction, as a read waits for no writer. */
  async get(
    space: Space,
    keys: readonly string[],
    { follows }: { readonly follows?: boolean | undefined } = {},
  ) {
    this.#store.seeWrites()
    return this.#values.get(space, keys, follows)
  }

  async commit(space: Space, writes: readonly Write[], { isDurable = false, bound }: CommitOptions = {}) {
    const commit = await this.#store.transact(() => this.#values.commit(space, writes, bound))
    if (isDurable && commit.isDone) await this.#store.db.flushed
    return commit
  }

  async scan(space: Space, scan: Scan) {
    this.#store.seeWrites()
    return this.#values.scan(space, scan)
  }

  take(space: Space, limits: readonly CounterLimit[], options?: TakeOptions) {
    return this.#store.transact(() => this.#counters.take(space, limits, options))
  }

  settle(space: Space, changes: readonly CounterChange[], options: SettleOptions) {
    return this.#store.transact(() => this.#counters.settle(space, changes, options))
  }

  warning(): string | undefined {
    return this.#counters.warning()
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

function tableIn({ db }: LmdbStore<string>): OrderedTable {
  return {
    get: (key) => db.get(key)?.toString(),
    put(key, value) {
      db.put(key, Buffer.from(value))
    },
    remove(key) {
      db.remove(key)
    },
    keys(start, end, limit, reverse = false) {
      // An array, as the caller changes the table.
      return [...db.getKeys({ start, end, limit, reverse, exclusiveStart: true })]
    },
  }
}
