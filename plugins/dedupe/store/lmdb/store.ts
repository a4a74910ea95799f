// Keys on this host's disk, shared by its processes; they survive a restart and a crash.
import type { DedupeClaim, DedupeClaimResult, DedupeStore } from '@svc/core'
import { LmdbStore } from '@svc/core/lmdb'
import { claimed, type Entry, ended, isRunning, mayEnd, phases, resultOf, sent } from '../entry.js'

interface LmdbDedupeOptions {
  /** On a local filesystem; made if it is missing. */
  readonly dir: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** An entry, or an index record by expiry, in the order of time. */
type Key = ['key', key: string] | ['until', expiresAt: number, key: string]

/** Expired entries that each new one deletes: more than one, so that their number falls. */
const SWEPT = 4

const NOTHING = Buffer.alloc(0)

export class LmdbDedupeStore implements DedupeStore {
  #now: () => number
  #store: LmdbStore<Key>

  /** Throws when the directory cannot be opened. */
  constructor({ dir, now = Date.now }: LmdbDedupeOptions) {
    this.#now = now
    this.#store = new LmdbStore({ dir, name: 'the dedupe store', isSecret: true })
  }

  claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    return this.#store.transact(() => {
      const now = this.#now()
      const entry = this.#entryAt(claim.key)
      const result = resultOf(entry, claim, now)
      if (result.state !== 'claimed') return result
      this.#sweep(now)
      this.#put(claim.key, entry, claimed(claim, now))
      return result
    })
  }

  async markSent(claim: DedupeClaim): Promise<boolean> {
    const isOurs = await this.#store.transact(() => {
      const entry = this.#entryAt(claim.key)
      const now = this.#now()
      if (!isRunning(entry, claim, now)) return false
      this.#put(claim.key, entry, sent(claim, now))
      return true
    })
    // A mark that a power failure reverts would let a second call be sent.
    if (isOurs) await this.#store.db.flushed
    return isOurs
  }

  renew(claim: DedupeClaim): Promise<boolean> {
    return this.#store.transact(() => {
      const entry = this.#entryAt(claim.key)
      const now = this.#now()
      if (!isRunning(entry, claim, now)) return false
      this.#put(claim.key, entry, (entry.phase === 'sent' ? sent : claimed)(claim, now))
      return true
    })
  }

  release(claim: DedupeClaim): Promise<void> {
    return this.#store.transact(() => {
      const entry = this.#entryAt(claim.key)
      if (!isRunning(entry, claim, this.#now())) return
      this.#store.db.remove(['until', entry.expiresAt, claim.key])
      this.#store.db.remove(['key', claim.key])
    })
  }

  complete(claim: DedupeClaim, response: Uint8Array | null): Promise<boolean> {
    return this.#end(claim, response)
  }

  markUnknown(claim: DedupeClaim): Promise<boolean> {
    return this.#end(claim, undefined)
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  #end(claim: DedupeClaim, response: Uint8Array | null | undefined): Promise<boolean> {
    return this.#store.transact(() => {
      const now = this.#now()
      const entry = this.#entryAt(claim.key)
      if (!mayEnd(entry, claim, now)) return false
      this.#put(claim.key, entry, ended(claim, now, response))
      return true
    })
  }

  #entryAt(key: string): Entry | undefined {
    const stored = this.#store.db.get(['key', key])
    return stored === undefined ? undefined : decodeEntry(stored)
  }

  #put(key: string, before: Entry | undefined, after: Entry): void {
    const { db } = this.#store
    if (before !== undefined && before.expiresAt !== after.expiresAt) {
      db.remove(['until', before.expiresAt, key])
    }
    db.put(['until', after.expiresAt, key], NOTHING)
    db.put(['key', key], encodeEntry(after))
  }

  #sweep(now: number): void {
    const { db } = this.#store
    const old = db.getKeys({ start: ['until', 0, ''], end: ['until', now, ''], limit: SWEPT })
    for (const note of [...old]) {
      db.remove(note)
      if (note.length === 3) db.remove(['key', note[2]])
    }
  }
}

const LINE_FEED = 10

/** An entry on disk is a line of JSON, then the bytes of the response. */
function encodeEntry(entry: Entry): Buffer {
  const { phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, response } = entry
  const head = JSON.stringify([phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, response !== null])
  return Buffer.concat([Buffer.from(`${head}\n`), response ?? Buffer.alloc(0)])
}

/** @throws {Error} if the bytes are not an entry */
function decodeEntry(bytes: Buffer): Entry {
  const [phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, isKept] = headOf(bytes)
  const isEntry =
    phases.some((one) => one === phase) &&
    typeof fingerprint === 'string' &&
    typeof owner === 'string' &&
    [leaseMs, leaseUntil, expiresAt].every(Number.isFinite) &&
    typeof isKept === 'boolean'
  if (!isEntry) throw foreign(bytes)
  const response = isKept ? bytes.subarray(bytes.indexOf(LINE_FEED) + 1) : null
  return { phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, response } as Entry
}

function headOf(bytes: Buffer): readonly unknown[] {
  try {
    const head: unknown = JSON.parse(bytes.toString('utf8', 0, bytes.indexOf(LINE_FEED)))
    return Array.isArray(head) ? head : []
  } catch (cause) {
    throw foreign(bytes, { cause })
  }
}

function foreign(bytes: Buffer, options?: ErrorOptions): Error {
  return new Error(`a stored record of ${bytes.length} bytes cannot be read`, options)
}
