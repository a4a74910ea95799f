// A board: a short list that every gateway of a deployment reads within moments, and says that it has read.
import { randomUUID } from 'node:crypto'
import type { KeyValueStore, Space, Watch } from '@svc/core'

interface BoardReader {
  /** Unique for the life of the reader. */
  readonly id: string
  /** Its name, for people. */
  readonly name: string
  /** The version of the list that it applies; empty before the first. */
  readonly version: string
}

interface BoardEntry {
  readonly id: string
  readonly value: string
  /** Milliseconds to its end, by the clock of the store; not positive if it has ended and nobody has removed it. */
  readonly leftMs: number
}

export interface BoardState {
  /** Changes with the list. What is before the colon changes if the store has lost its content. */
  readonly version: string
  /** Undefined if the version is the one that was asked about. */
  readonly entries: readonly BoardEntry[] | undefined
  /** The time of a store that has a clock of its own, in milliseconds since the epoch. */
  readonly time?: number
}

/** A reader, and the time since it read last, in milliseconds. */
export interface SeenReader extends BoardReader {
  readonly silentMs: number
}

const MAX_ENTRIES = 10_000
const bounds = { isOrdered: true, maxEntries: MAX_ENTRIES, maxValue: 65_536 }
const list: Space = { name: 'board', ...bounds, isTracked: true, isWatched: true }
const readers: Space = { name: 'board-readers', ...bounds }
const READER_MS = 3_600_000
/** How long an entry that has ended waits until a gateway has recorded its end. */
const ENDED_MS = 30 * 86_400_000

/** Its operations reject while the store is down. */
export class Board {
  #store: KeyValueStore

  constructor(store: KeyValueStore) {
    this.#store = store
  }

  /** The list; only its version if that is `known`. */
  async read(known: string): Promise<BoardState> {
    const scan = { prefix: 'entry/', limit: MAX_ENTRIES, since: known }
    const { revision: version, now, entries } = await this.#store.scan(list, scan)
    const time = this.#store.isRemote === true ? { time: now } : {}
    if (entries === undefined || version === known) return { version, entries: undefined, ...time }
    const shown = entries.map(({ key, value, endsAt }) => ({
      id: key.slice('entry/'.length),
      value,
      leftMs: endsAt - ENDED_MS - now,
    }))
    return { version, entries: shown, ...time }
  }

  /** Calls `changed` when the list may have changed. */
  watch(changed: () => void): Watch {
    return this.#store.watch(list, changed)
  }

  /** Says that the reader lives, and which version it applies. */
  async seen(reader: BoardReader): Promise<void> {
    const value = JSON.stringify(reader)
    await this.#store.commit(readers, [
      { key: `reader/${reader.id}`, value, version: 'seen', ttlMs: READER_MS },
    ])
  }

  /** The gateways of the last hour. */
  async readers(): Promise<SeenReader[]> {
    const { entries = [], now } = await this.#store.scan(readers, { prefix: 'reader/', limit: MAX_ENTRIES })
    return entries.map(({ value, writtenAt }) => ({
      ...(JSON.parse(value) as BoardReader),
      silentMs: now - writtenAt,
    }))
  }

  /** Sets an entry, which replaces one with the same id, and returns the new version. */
  async put(id: string, value: string, ttlMs: number): Promise<string> {
    const write = { key: `entry/${id}`, value, version: randomUUID(), ttlMs: ttlMs + ENDED_MS }
    return (await this.#store.commit(list, [write])).revision
  }

  /** Removes an entry. Undefined if there was none, so that of several removals one counts. */
  async remove(id: string): Promise<string | undefined> {
    const key = `entry/${id}`
    const [entry] = (await this.#store.get(list, [key])).entries
    if (entry === undefined) return undefined
    const { isDone, revision } = await this.#store.commit(list, [
      { key, version: 'removed', expect: entry.version },
    ])
    return isDone ? revision : undefined
  }

  async close(): Promise<void> {
    await this.#store.close?.()
  }
}
