// Spaces, versions and ends on an ordered table: the same for a store in memory and one on disk.
import { randomUUID } from 'node:crypto'
import type {
  Bound,
  Commit,
  Entry,
  Scan,
  ScanPage,
  Snapshot,
  Space,
  SpaceState,
  Write,
} from '../../plugin/key-value-store.js'
import { checkWrites } from './check.js'
import type { StoreTime } from './host-time.js'

/** Entries, and the texts of their indexes, by keys of ASCII in the order of the keys. */
export interface OrderedTable {
  get(key: string): string | undefined
  /** `key` is that of the table; the entry has the key of its space. */
  entry(key: string): Entry | undefined
  put(key: string, value: string | Entry): void
  remove(key: string): void
  /** Up to `limit` keys between the two, without them, from `start` on; `start` is the greater one of a reverse range. */
  keys(start: string, end: string, limit: number, isReverse?: boolean): string[]
  /** @throws {Error} if there is no room for so many characters, even after `sweep`, which returns how many it has removed */
  makeRoom?(length: number, sweep: () => number): void
}

/** An entry that is written, or undefined for one that is removed. */
export interface EntryChange {
  readonly key: string
  /** The key of the table, if it is known. */
  readonly place?: string
  readonly entry: Entry | undefined
  /** It is there, and ends as before. */
  readonly isInPlace?: boolean
}

/** Ended entries that each commit removes beside its own: more than it adds, so that their number falls. */
const SWEPT = 4
/** Ended entries that are removed at a time to make room. */
const SWEPT_IF_FULL = 1000
/** Sorts after each character of a key. */
const LAST = '\x7f'
/** Sorts before each character of a key, and separates the parts of keys. */
const SEPARATOR = ' '

/** Each method is to be called in one transaction; `get` and `scan` change nothing. */
export class TableKeyValue {
  #table: OrderedTable
  #time: StoreTime

  constructor(table: OrderedTable, time: StoreTime) {
    this.#table = table
    this.#time = time
  }

  get(space: Space, keys: readonly string[], follows = false): Snapshot {
    const now = this.#time.now()
    const entries = keys.map((key) => this.entry(space, key, now))
    const found = follows ? entries.map((entry) => entry && this.entry(space, entry.value, now)) : entries
    return { ...this.#state(space, now), entries: found }
  }

  commit(space: Space, writes: readonly Write[], bound?: Bound): Commit {
    checkWrites(space, writes)
    const now = this.#time.now()
    const entries = writes.map(({ key }) => this.entry(space, key, now))
    const isExpected = ({ expect }: Write, i: number) =>
      expect === undefined || (entries[i]?.version ?? null) === expect
    if (!writes.every(isExpected)) return { ...this.#state(space, now), isDone: false, entries }
    const added = writes.filter(({ value }, i) => value !== undefined && entries[i] === undefined)
    const isFull = bound !== undefined && this.#exceeds(space, writes, bound, now)
    if (isFull || !this.hasRoom(space, added, now))
      return { ...this.#state(space, now), isDone: false, isFull: true, entries }
    const changes = writes.map(({ key, value, version, owner = '', ttlMs = Infinity }) => {
      const endsAt = Math.ceil(now + ttlMs)
      return {
        key,
        entry: value === undefined ? undefined : { key, value, version, owner, writtenAt: now, endsAt },
      }
    })
    this.write(space, changes, now)
    return { ...this.#state(space, now), isDone: true, entries: [] }
  }

  /** Writes without a condition. @throws {Error} if there is no room */
  write(space: Space, changes: readonly EntryChange[], now: number): void {
    this.#time.keep(now)
    let length = 0
    let isIndexed = true
    for (const { entry, isInPlace } of changes) {
      length += entry?.value.length ?? 0
      if (isInPlace !== true) isIndexed = false
    }
    if (!isIndexed) this.sweep(now, SWEPT * changes.length)
    this.#table.makeRoom?.(length, () => this.sweep(now))
    for (const { key, place, entry, isInPlace } of changes) {
      if (isInPlace !== true) this.#remove(space.name, key)
      if (entry === undefined) continue
      this.#table.put(place ?? keyOf(space.name, key), entry)
      if (isInPlace !== true) this.#index(space, entry)
    }
    if (!isIndexed) this.#evict(space)
    if (space.isWatched === true) this.#count(space)
  }

  /** Whether the owners may have the entries as well; those that have ended are removed first. */
  hasRoom(space: Space, added: readonly Pick<Write, 'owner'>[], now: number): boolean {
    const { name, maxOwned } = space
    if (maxOwned === undefined) return true
    return added.every(({ owner = '' }) => {
      const own = added.filter((one) => (one.owner ?? '') === owner).length
      const isFull = () => this.#size(name, owner) + own > maxOwned
      while (isFull() && this.sweep(now) > 0);
      return !isFull()
    })
  }

  entry(space: Space, key: string, now: number): Entry | undefined {
    return this.entryAt(keyOf(space.name, key), now)
  }

  /** The entry at a key of the table. */
  entryAt(place: string, now: number): Entry | undefined {
    const entry = this.#table.entry(place)
    return entry !== undefined && entry.endsAt > now ? entry : undefined
  }

  scan(
    space: Space,
    { prefix, after, upTo, limit, isReverse = false, follows = false, since }: Scan,
  ): ScanPage {
    const now = this.#time.now()
    const state = this.#state(space, now)
    if (since !== undefined && since === state.revision) return { ...state, entries: undefined }
    const low = keyOf(space.name, prefix)
    const high = upTo === undefined ? low + LAST : keyOf(space.name, upTo) + SEPARATOR
    const [first, end] = isReverse ? [high, low] : [low, high]
    let start = after === undefined ? first : keyOf(space.name, after)
    const entries: Entry[] = []
    for (;;) {
      const wanted = limit - entries.length
      const keys = this.#table.keys(start, end, wanted, isReverse)
      for (const key of keys) {
        const entry = this.entry(space, keyIn(key), now)
        const found = follows && entry !== undefined ? this.entry(space, entry.value, now) : entry
        if (found !== undefined) entries.push(found)
      }
      start = keys.at(-1) ?? end
      if (keys.length < wanted || entries.length >= limit) return { ...state, entries }
    }
  }

  #exceeds(space: Space, writes: readonly Write[], bound: Bound, now: number): boolean {
    const { prefix, maxEntries, maxTotal } = bound
    const own = writes.filter(({ key, value }) => key.startsWith(prefix) && value !== undefined)
    const low = keyOf(space.name, prefix)
    const others = this.#table
      .keys(low, low + LAST, Number.MAX_SAFE_INTEGER)
      .map((key) => this.entry(space, keyIn(key), now))
      .filter((entry) => entry !== undefined && !own.some(({ key }) => key === entry.key))
    const sum = (all: readonly ({ readonly value?: string | undefined } | undefined)[]) =>
      all.reduce((total, one) => total + Number(one?.value), 0)
    const total = sum(others)
    return others.length + own.length > maxEntries || (total > 0 && total + sum(own) > maxTotal)
  }

  #state(space: Space, now: number): SpaceState {
    return { now, revision: this.#table.get(`m ${space.name}`) ?? '' }
  }

  #index({ name, maxEntries, maxOwned }: Space, { key, owner, endsAt }: Entry): void {
    if (endsAt < Infinity) this.#table.put(endOf(endsAt, name, key), '')
    if (maxEntries !== undefined) this.#table.put(`x ${name} ${padded(endsAt)} ${key}`, '')
    if (maxEntries !== undefined) this.#resize(name, '', 1)
    if (maxOwned !== undefined) this.#resize(name, owner, 1)
  }

  #remove(space: string, key: string): void {
    const stored = this.#table.entry(keyOf(space, key))
    if (stored === undefined) return
    const { endsAt, owner } = stored
    this.#table.remove(keyOf(space, key))
    this.#table.remove(endOf(endsAt, space, key))
    const inSpace = `x ${space} ${padded(endsAt)} ${key}`
    const isOfSpace = this.#table.get(inSpace) !== undefined
    if (isOfSpace) this.#table.remove(inSpace)
    this.#resize(space, isOfSpace ? '' : owner, -1)
  }

  /** Removes entries that have ended, of all spaces, and returns how many. */
  sweep(now: number, limit = SWEPT_IF_FULL): number {
    const ended = this.#table.keys('e ', `e ${padded(now)}${LAST}`, limit)
    for (const one of ended) {
      const [, , space = '', key = ''] = one.split(SEPARATOR)
      this.#remove(space, key)
    }
    return ended.length
  }

  #evict({ name, maxEntries = Infinity }: Space): void {
    const excess = this.#size(name, '') - maxEntries
    if (!(excess > 0)) return
    for (const first of this.#table.keys(`x ${name} `, `x ${name} ${LAST}`, excess))
      this.#remove(name, keyIn(first))
  }

  /** How many entries are counted, with those that have ended and wait for their removal: of a space, or of an owner in it. */
  #size(space: string, owner: string): number {
    return Number(this.#table.get(`n ${space} ${owner}`) ?? 0)
  }

  #resize(space: string, owner: string, by: number): void {
    const key = `n ${space} ${owner}`
    const size = this.#size(space, owner)
    if (size + by > 0) this.#table.put(key, String(size + by))
    else if (size > 0) this.#table.remove(key)
  }

  #count({ name }: Space): void {
    const [epoch = '', count] = (this.#table.get(`m ${name}`) ?? `${randomUUID()}:0`).split(':')
    this.#table.put(`m ${name}`, `${epoch}:${Number(count) + 1}`)
  }
}

/** The key of the table under which the space has the entry. */
export function keyOf(space: string, key: string): string {
  return `k ${space} ${key}`
}

/** The key in its space of a key of the table. */
function keyIn(tableKey: string): string {
  return tableKey.slice(tableKey.lastIndexOf(SEPARATOR) + 1)
}

function endOf(endsAt: number, space: string, key: string): string {
  return `e ${padded(endsAt)} ${space} ${key}`
}

/** Instants in the order of their digits. */
function padded(instant: number): string {
  return String(Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(instant))).padStart(16, '0')
}

/** The text of an entry, for tables that hold texts alone. */
export function encode({ value, version, owner, writtenAt, endsAt }: Entry): string {
  return `${endsAt} ${writtenAt} ${version} ${owner} ${value}`
}

/** The entry at a key of the table. @throws {Error} if the text is not an entry */
export function decode(tableKey: string, text: string): Entry {
  const [, endsAt, writtenAt, version, owner] = /^(\S+) (\S+) (\S+) (\S*) /.exec(text) ?? []
  const [ends, written] = [Number(endsAt), Number(writtenAt)]
  if (version === undefined || owner === undefined || Number.isNaN(ends) || !Number.isFinite(written))
    throw new Error(`a stored entry of ${text.length} characters cannot be read`)
  const start = `${endsAt} ${writtenAt} ${version} ${owner} `.length
  const key = keyIn(tableKey)
  return { key, value: text.slice(start), version, owner, writtenAt: written, endsAt: ends }
}
