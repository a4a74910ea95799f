// Spaces, versions and ends on an ordered table: the same for a store in memory and one on disk.
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { MaybePromise } from '../../call/maybe-promise.js'
import type {
  Bound,
  Commit,
  CommitOptions,
  Entry,
  GetOptions,
  KeyValueStore,
  Scan,
  Space,
  SpaceState,
  Watch,
  Write,
} from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { checkWrites } from './check.js'
import { StoreTime } from './host-time.js'

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
  /** A table that other processes use too has transactions. */
  transact?<T>(act: () => T): Promise<T>
  /** Makes the next read see what other processes have written; a read waits for no writer. */
  refresh?(): void
  /** Resolves when the writes are on the disk. */
  flush?(): Promise<unknown>
  /** Notices of changes, of any space and by any process. */
  watch?(changed: () => void): Watch
  close?(): Promise<void>
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

/** Protected methods are to be called in one transaction. */
export abstract class TableKeyValue implements KeyValueStore {
  protected readonly time: StoreTime
  /** Other processes use the table too. */
  protected readonly isShared: boolean
  #table: OrderedTable
  /** By space, of this process alone. */
  #changes = new EventEmitter().setMaxListeners(0)

  constructor(table: OrderedTable, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#table = table
    this.isShared = table.transact !== undefined
    this.time = new StoreTime(table, clock)
    // The time of a store in memory begins here, that of a store on disk with its first write.
    if (!this.isShared) this.time.keep(this.now())
  }

  now(): number {
    return this.time.now()
  }

  warning(): string | undefined {
    return this.time.warning()
  }

  async get(space: Space, keys: readonly string[], { follows = false }: GetOptions = {}) {
    this.#table.refresh?.()
    const now = this.now()
    return { ...this.#state(space, now), entries: keys.map((key) => this.#read(space, key, now, follows)) }
  }

  async commit(space: Space, writes: readonly Write[], { isDurable = false, bound }: CommitOptions = {}) {
    const commit = await this.transact(() => this.#commit(space, writes, bound))
    if (!commit.isDone) return commit
    if (isDurable) await this.#table.flush?.()
    if (space.isWatched === true) this.#changes.emit(space.name)
    return commit
  }

  async scan(space: Space, { prefix, after, upTo, limit, isReverse = false, follows = false, since }: Scan) {
    this.#table.refresh?.()
    const now = this.now()
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
      entries.push(...keys.flatMap((key) => this.#read(space, keyIn(key), now, follows) ?? []))
      start = keys.at(-1) ?? end
      if (keys.length < wanted || entries.length >= limit) return { ...state, entries }
    }
  }

  watch({ name }: Space, changed: () => void): Watch {
    if (this.#table.watch !== undefined) return this.#table.watch(changed)
    this.#changes.on(name, changed)
    return { isLive: true, close: () => this.#changes.off(name, changed) }
  }

  async close(): Promise<void> {
    await this.#table.close?.()
  }

  protected transact<T>(act: () => T): MaybePromise<T> {
    return this.#table.transact === undefined ? act() : this.#table.transact(act)
  }

  /** Writes without a condition. @throws {Error} if there is no room */
  protected write(space: Space, changes: readonly EntryChange[], now: number): void {
    this.time.keep(now)
    let length = 0
    let isIndexed = true
    for (const { entry, isInPlace } of changes) {
      length += entry?.value.length ?? 0
      if (isInPlace !== true) isIndexed = false
    }
    if (!isIndexed) this.#sweep(now, SWEPT * changes.length)
    this.#table.makeRoom?.(length, () => this.#sweep(now))
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
  protected hasRoom(space: Space, added: readonly Pick<Write, 'owner'>[], now: number): boolean {
    const { name, maxOwned } = space
    if (maxOwned === undefined) return true
    return added.every(({ owner = '' }) => {
      const own = added.filter((one) => (one.owner ?? '') === owner).length
      const isFull = () => this.#size(name, owner) + own > maxOwned
      while (isFull() && this.#sweep(now) > 0);
      return !isFull()
    })
  }

  /** The entry at a key of the table. */
  protected entryAt(place: string, now: number): Entry | undefined {
    const entry = this.#table.entry(place)
    return entry !== undefined && entry.endsAt > now ? entry : undefined
  }

  #read({ name }: Space, key: string, now: number, follows = false): Entry | undefined {
    const entry = this.entryAt(keyOf(name, key), now)
    return follows && entry !== undefined ? this.entryAt(keyOf(name, entry.value), now) : entry
  }

  #commit(space: Space, writes: readonly Write[], bound: Bound | undefined): Commit {
    checkWrites(space, writes)
    const now = this.now()
    const entries = writes.map(({ key }) => this.#read(space, key, now))
    const isExpected = ({ expect }: Write, i: number) =>
      expect === undefined || (entries[i]?.version ?? null) === expect
    if (!writes.every(isExpected)) return { ...this.#state(space, now), isDone: false, entries }
    const added = writes.filter(({ value }, i) => value !== undefined && entries[i] === undefined)
    const isFull = bound !== undefined && this.#exceeds(space, writes, bound, now)
    if (isFull || !this.hasRoom(space, added, now))
      return { ...this.#state(space, now), isDone: false, isFull: true, entries }
    const changes = writes.map(({ key, value, version, owner = '', ttlMs = Infinity }) => {
      const endsAt = Math.ceil(now + ttlMs)
      const entry = value === undefined ? undefined : { key, value, version, owner, writtenAt: now, endsAt }
      return { key, entry }
    })
    this.write(space, changes, now)
    return { ...this.#state(space, now), isDone: true, entries: [] }
  }

  #exceeds(space: Space, writes: readonly Write[], bound: Bound, now: number): boolean {
    const { prefix, maxEntries, maxTotal } = bound
    const own = writes.filter(({ key, value }) => key.startsWith(prefix) && value !== undefined)
    const low = keyOf(space.name, prefix)
    const others = this.#table
      .keys(low, low + LAST, Number.MAX_SAFE_INTEGER)
      .flatMap((key) => this.#read(space, keyIn(key), now) ?? [])
      .filter((entry) => !own.some(({ key }) => key === entry.key))
    const sum = (all: readonly { readonly value?: string | undefined }[]) =>
      all.reduce((total, { value }) => total + Number(value), 0)
    const total = sum(others)
    return others.length + own.length > maxEntries || (total > 0 && total + sum(own) > maxTotal)
  }

  #state({ name }: Space, now: number): SpaceState {
    return { now, revision: this.#table.get(`m ${name}`) ?? '' }
  }

  #index({ name, maxEntries, maxOwned }: Space, { key, owner, endsAt }: Entry): void {
    if (endsAt < Infinity) this.#table.put(endOf(endsAt, name, key), '')
    if (maxEntries !== undefined) this.#table.put(inSpace(name, endsAt, key), '')
    if (maxEntries !== undefined) this.#resize(name, '', 1)
    if (maxOwned !== undefined) this.#resize(name, owner, 1)
  }

  #remove(space: string, key: string): void {
    const stored = this.#table.entry(keyOf(space, key))
    if (stored === undefined) return
    const { endsAt, owner } = stored
    this.#table.remove(keyOf(space, key))
    this.#table.remove(endOf(endsAt, space, key))
    const index = inSpace(space, endsAt, key)
    const isOfSpace = this.#table.get(index) !== undefined
    if (isOfSpace) this.#table.remove(index)
    this.#resize(space, isOfSpace ? '' : owner, -1)
  }

  /** Removes entries that have ended, of all spaces, and returns how many. */
  #sweep(now: number, limit = SWEPT_IF_FULL): number {
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
export function keyIn(tableKey: string): string {
  return tableKey.slice(tableKey.lastIndexOf(SEPARATOR) + 1)
}

function endOf(endsAt: number, space: string, key: string): string {
  return `e ${padded(endsAt)} ${space} ${key}`
}

function inSpace(space: string, endsAt: number, key: string): string {
  return `x ${space} ${padded(endsAt)} ${key}`
}

/** Instants in the order of their digits. */
function padded(instant: number): string {
  return String(Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(instant))).padStart(16, '0')
}
