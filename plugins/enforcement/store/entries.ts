// Escalations in a store of keys and values. All lie in one space, as people decide them one by one:
//   entry/<id>                the escalation
//   input/<id>                its whole input
//   newest/<hash>             the key of the newest escalation of a call, by its fingerprint
//   pending/<hash>/<id>       of those that a principal has pending: the bytes of their inputs
//   age/, open/, wake/<instant>/<id>   the key of an escalation, of those that are pending, and by the time of the next step
import type { Entry, Space, Write } from '@svc/core'
import { sha256Base64url } from '@svc/core/json'
import { retried, StoreLayer } from '@svc/core/store'
import { z } from 'zod'

const entrySchema = z.strictObject({
  id: z.string(),
  /** The fingerprint of the call. */
  fingerprint: z.string(),
  /** The caller, as a person or a service agent; the pending entries of each are limited. */
  principal: z.string(),
  /** Whether people have to vote on it: a decision is pending, or the review of an emergency call. */
  isPending: z.boolean(),
  /** This and the next three are in milliseconds since the epoch. */
  createdAt: z.number(),
  /** When a pending entry has its next step, its expiry at the latest. */
  wakeAt: z.number(),
  /** When a pending entry expires. */
  dueAt: z.number(),
  /** When the entry may be deleted. */
  forgetAt: z.number(),
  /** Starts at 1 and rises by one with each change. */
  version: z.int(),
  body: z.string(),
})

export type EscalationEntry = Readonly<z.output<typeof entrySchema>>

export interface OpenConditions {
  /** The newest id under the fingerprint that the opener has read. */
  readonly replaces: string | undefined
  /** Maximum number of pending entries of a principal. */
  readonly maxPending: number
  /** Maximum bytes of the inputs of a principal's pending entries together; a single one may be larger. */
  readonly maxInputBytes: number
  /** Milliseconds since the epoch; expired entries are not counted. */
  readonly now: number
}

/** The place of an entry in pages; there need not be an entry. */
export type EntryPosition = Pick<EscalationEntry, 'id' | 'createdAt'>

/** Which entries a page has, and in which order. Those of one millisecond are in the order of their ids. */
export interface EntryPage {
  /** Only pending entries. Others must not make such a page slower: it is read each second. */
  readonly isPending?: boolean
  /** Default: the newest. */
  readonly first?: 'newest' | 'oldest' | undefined
}

const space: Space = { name: 'escalations', isOrdered: true, maxValue: 16_777_216 }

/** An id may come from a client. */
const ID = /^[\w-]{1,100}$/
/** Instants from this one on never come. */
const NEVER = 8e15

/** Each operation is atomic across all gateways that share the store, and rejects when it fails. */
export class EscalationStore extends StoreLayer {
  /**
   * Stores a new entry as the newest with its fingerprint, with its input. `raced`: another entry was opened meanwhile,
   * or has the id; `full`: its principal has too many pending entries. In both cases nothing was stored.
   */
  async open(
    entry: EscalationEntry,
    { replaces, maxPending, maxInputBytes, now }: OpenConditions,
    input?: string,
  ): Promise<'opened' | 'raced' | 'full'> {
    const bytes = String(input === undefined ? 0 : Buffer.byteLength(input))
    const prefix = pendingPrefix(entry)
    const bound = { prefix, maxEntries: maxPending, maxTotal: maxInputBytes }
    const owner = ownerOf(entry)
    let newest = replaces ?? null
    const { result } = await retried(async () => {
      const writes: Write[] = [
        { ...entryWrite(entry, now), expect: null },
        { ...reference(newestKey(entry.fingerprint), entry, now), expect: newest },
        ...indexesOf(entry).map((index) => reference(index, entry, now)),
      ]
      if (input !== undefined)
        writes.push({ ...reference(`input/${entry.id}`, entry, now), owner, value: input })
      if (entry.isPending && entry.dueAt > now)
        writes.push({
          key: prefix + entry.id,
          value: bytes,
          version: entry.id,
          ttlMs: ttlOf(entry.dueAt, now),
        })
      const options = entry.isPending ? { bound } : {}
      const { isDone, isFull, entries } = await this.store.commit(space, writes, options)
      if (isDone) return { result: 'opened' as const }
      const [stored, latest] = entries
      if (stored !== undefined) return { result: 'raced' as const }
      if (isFull === true) return { result: 'full' as const }
      // The newest one may have been removed by a gateway that did not know that it was the newest.
      if (latest === undefined || (await this.get(latest.version)) !== undefined)
        return { result: 'raced' as const }
      newest = latest.version
      return undefined
    })
    return result
  }

  async get(id: string): Promise<EscalationEntry | undefined> {
    return ID.test(id) ? this.#read(`entry/${id}`) : undefined
  }

  /** The input of the entry, which no other operation returns. */
  async input(id: string): Promise<string | undefined> {
    return ID.test(id) ? (await this.store.get(space, [`input/${id}`])).entries[0]?.value : undefined
  }

  /** Deletes the input, and leaves the entry. */
  async removeInput(id: string): Promise<void> {
    await this.store.commit(space, [deletion(`input/${id}`)])
  }

  /** The newest entry with the fingerprint. */
  latest(fingerprint: string): Promise<EscalationEntry | undefined> {
    return this.#read(newestKey(fingerprint), true)
  }

  /** Stores the entry in place of the version before it; false if another version is stored. */
  replace(entry: EscalationEntry, before: EscalationEntry): Promise<boolean> {
    const now = this.now?.() ?? Date.now()
    const indexes = indexesOf(entry)
    const left = indexesOf(before).filter((index) => !indexes.includes(index))
    return this.#change(before, reference(newestKey(entry.fingerprint), entry, now), [
      { ...entryWrite(entry, now), expect: String(before.version) },
      ...indexes.map((index) => reference(index, entry, now)),
      ...left.map(deletion),
      ...(entry.isPending ? [] : [deletion(pendingPrefix(entry) + entry.id)]),
    ])
  }

  /** Deletes this version; false if another is stored. */
  remove(entry: EscalationEntry): Promise<boolean> {
    return this.#change(entry, deletion(newestKey(entry.fingerprint)), [
      { ...deletion(`entry/${entry.id}`), expect: String(entry.version) },
      deletion(`input/${entry.id}`),
      ...indexesOf(entry).map(deletion),
      deletion(pendingPrefix(entry) + entry.id),
    ])
  }

  /** Pending entries whose next step is due, the earliest first. */
  async due(now: number, limit: number): Promise<readonly EscalationEntry[]> {
    const upTo = `wake/${digitsOf(now)}/~`
    const { entries = [] } = await this.store.scan(space, { prefix: 'wake/', upTo, limit, follows: true })
    return entries.map(decodeEntry).filter(({ wakeAt }) => wakeAt <= now)
  }

  /** The entries after `after`, which may be deleted or decided by now. */
  async page(
    after: EntryPosition | undefined,
    limit: number,
    { isPending = false, first = 'newest' }: EntryPage = {},
  ): Promise<readonly EscalationEntry[]> {
    const index = isPending ? 'open' : 'age'
    const { entries = [] } = await this.store.scan(space, {
      prefix: `${index}/`,
      after: after && `${index}/${digitsOf(after.createdAt)}/${after.id}`,
      limit,
      isReverse: first === 'newest',
      follows: true,
    })
    return entries.map(decodeEntry)
  }

  async #read(key: string, follows = false): Promise<EscalationEntry | undefined> {
    const [entry] = (await this.store.get(space, [key], { follows })).entries
    return entry && decodeEntry(entry)
  }

  /** Commits the writes, and the one of the newest entry if that is `entry`. */
  async #change({ id }: EscalationEntry, newest: Write, writes: readonly Write[]): Promise<boolean> {
    const both = [{ ...newest, expect: id }, ...writes]
    const { isDone, entries } = await this.store.commit(space, both)
    if (isDone || entries[0]?.version === id) return isDone
    if (entries[1]?.version !== writes[0]?.expect) return false
    return (await this.store.commit(space, writes)).isDone
  }
}

function pendingPrefix(entry: EscalationEntry): string {
  return `pending/${ownerOf(entry)}/`
}

function ownerOf({ principal }: EscalationEntry): string {
  return sha256Base64url(principal)
}

function entryWrite(entry: EscalationEntry, now: number): Write {
  const value = JSON.stringify(entry)
  const owner = ownerOf(entry)
  return { ...reference(`entry/${entry.id}`, entry, now), owner, value, version: String(entry.version) }
}

/** The key of the entry, which is kept as long as the entry. */
function reference(key: string, { id, forgetAt }: EscalationEntry, now: number): Write {
  return { key, value: `entry/${id}`, version: id, ttlMs: ttlOf(forgetAt, now) }
}

function newestKey(fingerprint: string): string {
  return `newest/${sha256Base64url(fingerprint)}`
}

function deletion(key: string): Write {
  return { key, version: 'deleted' }
}

function indexesOf({ id, isPending, createdAt, wakeAt }: EscalationEntry): string[] {
  const age = `${digitsOf(createdAt)}/${id}`
  return isPending ? [`age/${age}`, `open/${age}`, `wake/${digitsOf(wakeAt)}/${id}`] : [`age/${age}`]
}

/** Sixteen digits, which are in the order of the instants. */
function digitsOf(instant: number): string {
  return String(Math.min(NEVER, Math.floor(instant))).padStart(16, '0')
}

function ttlOf(forgetAt: number, now: number): number | undefined {
  return forgetAt >= NEVER ? undefined : Math.max(1, forgetAt - now)
}

/** @throws {Error} if the value is not an entry */
function decodeEntry({ value }: Entry): EscalationEntry {
  return entrySchema.parse(JSON.parse(value))
}
