// A board in a directory, for the processes of one host.
import { randomUUID } from 'node:crypto'
import type { Board, BoardEntry, BoardReader, BoardState, SeenReader } from '../../plugin/board.js'
import type { Clock } from '../../plugin/tokens.js'
import { StoreTime } from '../host-time.js'
import { LmdbStore } from './store.js'

type Key = ['time'] | ['version'] | ['entry', id: string] | ['reader', id: string]

interface Stored {
  readonly value: string
  /** Milliseconds of the store's time. */
  readonly end: number
}

interface Seen {
  readonly reader: BoardReader
  readonly at: number
}

interface Version {
  readonly epoch: string
  readonly count: number
}

const READER_MS = 3_600_000

export class LmdbBoard implements Board {
  #store: LmdbStore<Key>
  #time: StoreTime

  /** Throws when the directory cannot be opened. */
  constructor(dir: string, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#store = new LmdbStore({ dir, name: 'the board', isSecret: true })
    this.#time = new StoreTime(this.#store.db, clock)
  }

  async read(known: string): Promise<BoardState> {
    // Only a new transaction sees the writes of other processes.
    this.#store.db.resetReadTxn()
    const stored = this.#get<Version>(['version'])
    const version = stored === undefined ? '' : textOf(stored)
    if (version === known) return { version, entries: undefined }
    const now = this.#time.now()
    const entries = this.#all<Stored>('entry').map(([id, { value, end }]): BoardEntry => {
      return { id, value, leftMs: end - now }
    })
    return { version, entries }
  }

  seen(reader: BoardReader): Promise<void> {
    return this.#store.transact(() => this.#put(['reader', reader.id], { reader, at: this.#time.now() }))
  }

  async readers(): Promise<SeenReader[]> {
    this.#store.db.resetReadTxn()
    const now = this.#time.now()
    return this.#all<Seen>('reader')
      .map(([, { reader, at }]) => ({ ...reader, silentMs: now - at }))
      .filter(({ silentMs }) => silentMs < READER_MS)
  }

  put(id: string, value: string, ttlMs: number): Promise<string> {
    return this.#store.transact(() => {
      this.#put(['entry', id], { value, end: this.#time.now() + ttlMs })
      this.#removeOldReaders()
      return this.#bump()
    })
  }

  remove(id: string): Promise<string | undefined> {
    return this.#store.transact(() => {
      if (this.#store.db.get(['entry', id]) === undefined) return undefined
      this.#store.db.remove(['entry', id])
      return this.#bump()
    })
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  #bump(): string {
    const { epoch, count } = this.#get<Version>(['version']) ?? { epoch: randomUUID(), count: 0 }
    const version = { epoch, count: count + 1 }
    this.#put(['version'], version)
    return textOf(version)
  }

  #removeOldReaders(): void {
    for (const [id, { at }] of this.#all<Seen>('reader'))
      if (this.#time.now() - at > READER_MS) this.#store.db.remove(['reader', id])
  }

  #put(key: Key, value: Stored | Seen | Version): void {
    this.#time.keep()
    this.#store.db.put(key, Buffer.from(JSON.stringify(value)))
  }

  #get<T>(key: Key): T | undefined {
    const bytes = this.#store.db.get(key)
    return bytes === undefined ? undefined : (JSON.parse(bytes.toString()) as T)
  }

  #all<T>(kind: 'entry' | 'reader'): [id: string, value: T][] {
    const range = { start: [kind, ''] as Key, end: [kind, '\uffff'] as Key }
    return [...this.#store.db.getRange(range)].map(({ key, value }) => [
      String(key[1]),
      JSON.parse(value.toString()) as T,
    ])
  }
}

function textOf({ epoch, count }: Version): string {
  return `${epoch}:${count}`
}
