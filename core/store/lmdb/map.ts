// A map on this host's disk, for the gateways of one host without a store that several hosts share.
import { createHash } from 'node:crypto'
import type { MapBounds, SharedMap } from '../../plugin/shared-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { StoreTime } from '../host-time.js'
import type { LmdbStore } from './store.js'

/**
 * A value behind its end; the names by their ends; the number of names of a group; a secret and the time, which no map has. Groups and names are hashes, because
 * the length of a key is limited.
 */
export type MapKey =
  | ['value', map: string, group: string, name: string]
  | ['end', map: string, group: string, endsAt: number, name: string]
  | ['count', map: string, group: string]
  | ['secret', name: string]
  | ['time']

const NOTHING = Buffer.alloc(0)
/** Bytes of the end before a value: milliseconds of the store's time, as a double. */
const END = 8
/** Values of other groups that each operation removes if they have ended. */
const SWEPT = 2

export type MapClock = Pick<Clock, 'now' | 'monotonic'>

export class LmdbMap implements SharedMap {
  #store: LmdbStore<MapKey>
  #name: string
  #bounds: MapBounds
  #time: StoreTime
  #sweepFrom: MapKey

  constructor(store: LmdbStore<MapKey>, name: string, bounds: MapBounds, clock: MapClock) {
    this.#store = store
    this.#name = name
    this.#bounds = bounds
    this.#time = new StoreTime(store.db, clock)
    this.#sweepFrom = ['end', name, '', 0, '']
  }

  /** Outside a transaction, as a read waits for no writer. */
  async get(group: string, names: readonly string[]): Promise<(string | undefined)[]> {
    // Only a new read sees the writes of other processes.
    this.#store.db.resetReadTxn()
    const inGroup = hashOf(group)
    return names.map((name) => this.#known(inGroup, hashOf(name)))
  }

  set(group: string, entries: readonly (readonly [name: string, value: string])[]): Promise<void> {
    return this.#store.transact(() => {
      for (const [name, value] of entries) this.#put(hashOf(group), hashOf(name), value)
      this.#sweep()
    })
  }

  add(group: string, name: string, value: string): Promise<string | undefined> {
    return this.#store.transact(() => {
      const known = this.#known(hashOf(group), hashOf(name))
      if (known === undefined) this.#put(hashOf(group), hashOf(name), value)
      return known
    })
  }

  replace(group: string, name: string, before: string, value: string): Promise<boolean> {
    return this.#store.transact(() => {
      if (this.#known(hashOf(group), hashOf(name)) !== before) return false
      this.#put(hashOf(group), hashOf(name), value)
      return true
    })
  }

  delete(group: string, name: string): Promise<void> {
    return this.#store.transact(() => this.#remove(hashOf(group), hashOf(name)))
  }

  #known(group: string, name: string): string | undefined {
    const stored = this.#store.db.get(['value', this.#name, group, name])
    if (stored === undefined || stored.readDoubleBE(0) <= this.#time.now()) return undefined
    return stored.toString('utf8', END)
  }

  #put(group: string, name: string, value: string): void {
    this.#time.keep()
    this.#remove(group, name)
    const { db } = this.#store
    const endsAt = this.#time.now() + this.#bounds.ttlMs
    const stored = Buffer.allocUnsafe(END + Buffer.byteLength(value))
    stored.writeDoubleBE(endsAt)
    stored.write(value, END)
    db.put(['value', this.#name, group, name], stored)
    db.put(['end', this.#name, group, endsAt, name], NOTHING)
    this.#setCount(group, this.#count(group) + 1)
    const excess = this.#count(group) - this.#bounds.maxEntries
    if (excess > 0) this.#removeFirst(group, Number.MAX_SAFE_INTEGER, excess)
    this.#removeFirst(group, this.#time.now(), 2)
  }

  /** Removes up to `limit` entries that end by `until`, those that end first. */
  #removeFirst(group: string, until: number, limit: number): void {
    const keys = this.#store.db.getKeys({
      start: ['end', this.#name, group, 0, ''],
      end: ['end', this.#name, group, until, '\uffff'],
      limit,
    })
    for (const key of [...keys]) this.#remove(group, String(key[4]))
  }

  /** Removes what has ended of groups that are not written any more. Each process sweeps from its own position. */
  #sweep(): void {
    const end: MapKey = ['end', this.#name, '\uffff', 0, '']
    const range = { start: this.#sweepFrom, exclusiveStart: true, end }
    const keys = [...this.#store.db.getKeys({ ...range, limit: SWEPT })]
    for (const key of keys) {
      if (key[0] === 'end' && key[3] <= this.#time.now()) this.#remove(key[2], key[4])
    }
    const last = keys.at(-1)
    this.#sweepFrom = keys.length < SWEPT || last === undefined ? ['end', this.#name, '', 0, ''] : last
  }

  #remove(group: string, name: string): void {
    const { db } = this.#store
    const stored = db.get(['value', this.#name, group, name])
    if (stored === undefined) return
    db.remove(['value', this.#name, group, name])
    db.remove(['end', this.#name, group, stored.readDoubleBE(0), name])
    this.#setCount(group, this.#count(group) - 1)
  }

  #count(group: string): number {
    return this.#store.db.get(['count', this.#name, group])?.readUInt32BE(0) ?? 0
  }

  #setCount(group: string, count: number): void {
    const stored = Buffer.allocUnsafe(4)
    stored.writeUInt32BE(count)
    if (count > 0) this.#store.db.put(['count', this.#name, group], stored)
    else this.#store.db.remove(['count', this.#name, group])
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
