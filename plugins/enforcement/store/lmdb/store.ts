// Escalations on this host's disk, shared by its processes; they survive a restart.
import type {
  Clock,
  EntryPage,
  EntryPosition,
  EscalationEntry,
  EscalationStore,
  OpenConditions,
} from '@svc/core'
import { LmdbStore, StoreTime } from '@svc/core/lmdb'
import { decodeEntry, encodeEntry } from '../entry.js'

/** The time, an entry, its input, the newest of a fingerprint, and five indexes: pending by principal, by next step and by age; all by age and by deletion. */
type Key =
  | ['time']
  | ['entry', id: string]
  | ['input', id: string]
  | ['newest', fingerprint: string]
  | ['pending', principal: string, dueAt: number, id: string]
  | ['wake', wakeAt: number, id: string]
  | ['open', createdAt: number, id: string]
  | ['age', createdAt: number, id: string]
  | ['forget', forgetAt: number, id: string]

/** A key that sorts after every id. */
const LAST = '\uffff'
/** Entries that each new one deletes: more than one, so that their number falls. */
const SWEPT = 4

const NOTHING = Buffer.alloc(0)

export class LmdbEscalationStore implements EscalationStore {
  #store: LmdbStore<Key>
  #time: StoreTime

  /** Throws when the directory cannot be opened. */
  constructor(dir: string, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#store = new LmdbStore<Key>({ dir, name: 'the escalation store' })
    this.#time = new StoreTime(this.#store.db, clock)
  }

  /** A wall clock that is set neither ends an escalation nor prolongs an approval. */
  now(): number {
    return this.#time.now()
  }

  open(entry: EscalationEntry, { replaces, maxPending, maxInputBytes, now }: OpenConditions, input?: string) {
    const bytes = input === undefined ? NOTHING : Buffer.from(input)
    return this.#store.transact(() => {
      this.#forget(now)
      if (this.#get(entry.id) !== undefined) return 'raced'
      if (this.#newest(entry.fingerprint)?.id !== replaces) return 'raced'
      if (entry.isPending) {
        const pending = this.#pendingOf(entry.principal, now)
        if (pending.length >= maxPending) return 'full'
        const used = pending.reduce((sum, id) => sum + (this.#input(id)?.length ?? 0), 0)
        if (used > 0 && used + bytes.length > maxInputBytes) return 'full'
      }
      this.#put(entry)
      if (input !== undefined) this.#store.db.put(['input', entry.id], bytes)
      this.#store.db.put(['newest', entry.fingerprint], Buffer.from(entry.id))
      return 'opened'
    })
  }

  get(id: string) {
    return this.#store.transact(() => this.#get(id))
  }

  input(id: string) {
    return this.#store.transact(() => this.#input(id)?.toString())
  }

  removeInput(id: string) {
    return this.#store.transact(() => {
      this.#store.db.remove(['input', id])
    })
  }

  latest(fingerprint: string) {
    return this.#store.transact(() => this.#newest(fingerprint))
  }

  replace(entry: EscalationEntry) {
    return this.#store.transact(() => {
      const before = this.#get(entry.id)
      if (before?.version !== entry.version - 1) return false
      this.#take(before)
      this.#put(entry)
      return true
    })
  }

  remove(entry: EscalationEntry) {
    return this.#store.transact(() => {
      const kept = this.#get(entry.id)
      if (kept?.version !== entry.version) return false
      this.#drop(kept)
      return true
    })
  }

  due(now: number, limit: number) {
    return this.#store.transact(() => {
      this.#forget(now)
      const range = { start: ['wake', 0, ''] satisfies Key, end: ['wake', now, LAST] satisfies Key, limit }
      return this.#entries([...this.#store.db.getKeys(range)].map((key) => String(key[2])))
    })
  }

  page(
    after: EntryPosition | undefined,
    limit: number,
    { isPending = false, first = 'newest' }: EntryPage = {},
  ) {
    return this.#store.transact(() => {
      const index = isPending ? 'open' : 'age'
      const reverse = first === 'newest'
      const [low, high]: [Key, Key] = [
        [index, -1, ''],
        [index, Number.MAX_SAFE_INTEGER, LAST],
      ]
      const [from, end] = reverse ? [high, low] : [low, high]
      const start: Key = after === undefined ? from : [index, after.createdAt, after.id]
      const page: EscalationEntry[] = []
      const stale: Key[] = []
      for (const key of this.#store.db.getKeys({ start, end, reverse, exclusiveStart: true })) {
        // A gateway of another version leaves keys of entries that it has deleted or decided.
        const entry = this.#get(String(key[2]))
        if (entry === undefined || (isPending && !entry.isPending)) stale.push(key)
        else if (page.push(entry) === limit) break
      }
      for (const key of stale) this.#store.db.remove(key)
      return page
    })
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  #get(id: string): EscalationEntry | undefined {
    const stored = this.#store.db.get(['entry', id])
    return stored === undefined ? undefined : decodeEntry(stored.toString())
  }

  #input(id: string): Buffer | undefined {
    return this.#store.db.get(['input', id])
  }

  #newest(fingerprint: string): EscalationEntry | undefined {
    const id = this.#store.db.get(['newest', fingerprint])
    return id === undefined ? undefined : this.#get(id.toString())
  }

  #entries(ids: readonly string[]): EscalationEntry[] {
    return ids.flatMap((id) => this.#get(id) ?? [])
  }

  #pendingOf(principal: string, now: number): string[] {
    const start: Key = ['pending', principal, now, LAST]
    const end: Key = ['pending', principal, Number.MAX_SAFE_INTEGER, LAST]
    return [...this.#store.db.getKeys({ start, end })].map((key) => String(key[3]))
  }

  #put(entry: EscalationEntry): void {
    this.#time.keep()
    const { db } = this.#store
    db.put(['entry', entry.id], Buffer.from(encodeEntry(entry)))
    for (const key of indexesOf(entry)) db.put(key, NOTHING)
  }

  #take(entry: EscalationEntry): void {
    const { db } = this.#store
    db.remove(['entry', entry.id])
    for (const key of indexesOf(entry)) db.remove(key)
  }

  #drop(entry: EscalationEntry): void {
    this.#take(entry)
    this.#store.db.remove(['input', entry.id])
    if (this.#newest(entry.fingerprint) !== undefined) return
    this.#store.db.remove(['newest', entry.fingerprint])
  }

  #forget(now: number): void {
    const range = { start: ['forget', 0, ''] satisfies Key, end: ['forget', now, LAST] satisfies Key }
    const keys = this.#store.db.getKeys({ ...range, limit: SWEPT })
    for (const entry of this.#entries([...keys].map((key) => String(key[2])))) this.#drop(entry)
  }
}

function indexesOf(entry: EscalationEntry): Key[] {
  const { id, principal, isPending, createdAt, wakeAt, dueAt, forgetAt } = entry
  const always: Key[] = [
    ['age', createdAt, id],
    ['forget', forgetAt, id],
  ]
  if (!isPending) return always
  return [...always, ['pending', principal, dueAt, id], ['wake', wakeAt, id], ['open', createdAt, id]]
}
