// The port to a store of keys and values. Adapters are in memory, LMDB and Redis; what the gateway keeps is written once on it.
import type { StoreLifecycle } from './store-lifecycle.js'

/**
 * Keys that are changed together: they lie on one node of a cluster. Names of spaces and keys are 1 to 400 printable
 * characters of ASCII without spaces.
 */
export interface Space {
  readonly name: string
  /** Its keys can be scanned. */
  readonly isOrdered?: boolean
  /** A loss of its content is noticed. Such a space never vanishes, so there may be few of them. */
  readonly isTracked?: boolean
  /** Of a tracked space; it has revisions, and can be watched. */
  readonly isWatched?: boolean
  /** Of an ordered space; beyond it the entries that end first are removed. Default: no limit. */
  readonly maxEntries?: number
  /** Maximum number of entries of an owner; a commit that would add more is not done. Such entries do not change their owner. */
  readonly maxOwned?: number
  /** Maximum length of a value, in characters. Default: 4 MiB. */
  readonly maxValue?: number
}

export interface Entry {
  readonly key: string
  readonly value: string
  /** The name that its writer gave this state; other states of the key have others. */
  readonly version: string
  readonly owner: string
  /** When it was written, and when it ends, in milliseconds of the store's time; infinite without an end. */
  readonly writtenAt: number
  readonly endsAt: number
}

export interface Write {
  readonly key: string
  /** Undefined deletes the entry. */
  readonly value?: string | undefined
  /** 1 to 400 printable characters without spaces, `*` excepted. */
  readonly version: string
  /** The version that the key must have; null for no entry, undefined for any. */
  readonly expect?: string | null | undefined
  /** For whom it is kept, if neither the space nor the key says it. */
  readonly owner?: string | undefined
  /** Default: it does not end. */
  readonly ttlMs?: number | undefined
}

/** A commit is not done if it would leave more below the prefix than this. The values there are whole numbers. */
export interface Bound {
  readonly prefix: string
  readonly maxEntries: number
  /** For their numbers together; a single one may be larger. */
  readonly maxTotal: number
}

export interface CommitOptions {
  /** Resolves when the writes are on the disk, or on the replicas that the store waits for. */
  readonly isDurable?: boolean | undefined
  /** Of an ordered space. */
  readonly bound?: Bound | undefined
}

/** What each response says of its space. */
export interface SpaceState {
  /** The time of the store, in milliseconds since the epoch. */
  readonly now: number
  /**
   * Changes with each commit: an epoch, a colon, and a count. A store that has lost its content has another epoch. Empty
   * before the first commit, and for a space that is not watched.
   */
  readonly revision: string
  /** When the space began anew after its content was lost, in the time of the store. */
  readonly lostAt?: number | undefined
}

export interface GetOptions {
  /** As in scans. */
  readonly follows?: boolean | undefined
}

export interface Snapshot extends SpaceState {
  /** In the order of the keys. */
  readonly entries: readonly (Entry | undefined)[]
}

export interface Commit extends SpaceState {
  /** False if a key had another version, or a bound or `maxOwned` was reached; then nothing was written. */
  readonly isDone: boolean
  /** A bound or `maxOwned` was reached, and no key had another version. */
  readonly isFull?: boolean
  /** Of a commit that was not done: what the keys of the writes hold. */
  readonly entries: readonly (Entry | undefined)[]
}

export interface Scan {
  readonly prefix: string
  /** Keys after this one, in the order of the scan. */
  readonly after?: string | undefined
  /** Keys up to this one, in the order of the scan. */
  readonly upTo?: string | undefined
  readonly limit: number
  /** The last keys first. */
  readonly isReverse?: boolean | undefined
  /** The values are keys of the same space, whose entries are returned; those that have none are skipped. */
  readonly follows?: boolean | undefined
  /** A revision: the entries are left out if the space still has it. */
  readonly since?: string | undefined
}

export interface ScanPage extends SpaceState {
  /** Undefined if nothing has changed. */
  readonly entries: readonly Entry[] | undefined
}

export interface Watch {
  /** Whether notices arrive: without them the watcher has to look by itself. */
  readonly isLive: boolean
  close(): void
}

/** Each operation is atomic for all that share the store, and rejects when it fails: then it may have been carried out. */
export interface KeyValueStore extends StoreLifecycle {
  /** Its time is that of another host. */
  readonly isRemote?: boolean
  get(space: Space, keys: readonly string[], options?: GetOptions): Promise<Snapshot>
  /** All writes, or none. */
  commit(space: Space, writes: readonly Write[], options?: CommitOptions): Promise<Commit>
  scan(space: Space, scan: Scan): Promise<ScanPage>
  /**
   * Calls `changed` after a commit to the space by any client, and whenever notices may have been missed. A notice may be
   * lost, and may come without a change.
   */
  watch(space: Space, changed: () => void): Watch
}

/** Opens a connection of its own, which the caller closes. Does not wait for it. */
export type OpenKeyValueStore = () => Promise<KeyValueStore>
