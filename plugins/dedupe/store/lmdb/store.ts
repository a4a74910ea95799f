// Keys on this host's disk, shared by its processes; they survive a restart and a crash. They end after the time that has
// passed, whatever the wall clock shows: a clock that is set ahead must not let a call run twice.
import type { DedupeClaim, DedupeClaimResult, DedupeStore } from '@svc/core'
import { LmdbStore } from '@svc/core/lmdb'
import { type HostInstant, isSameBoot, thisBoot } from '@svc/core/store'
import { claimed, type Entry, ended, isRunning, mayEnd, phases, resultOf, sent } from '../entry.js'

interface LmdbDedupeOptions {
  /** On a local filesystem; made if it is missing. */
  readonly dir: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** Milliseconds of a clock that all processes of the host share and nobody sets. Default: `now`. */
  readonly monotonic?: () => number
}

/** An entry, an index record by expiry, in the order of time, or the instant from which time is counted. */
type Key = ['key', key: string] | ['until', expiresAt: number, key: string] | ['time']

/** Expired entries that each new one deletes: more than one, so that their number falls. */
const SWEPT = 4

const NOTHING = Buffer.alloc(0)

export class LmdbDedupeStore implements DedupeStore {
  #instant: () => HostInstant
  #store: LmdbStore<Key>

  /** Throws when the directory cannot be opened. */
  constructor({ dir, now = Date.now, monotonic = now }: LmdbDedupeOptions) {
    this.#instant = () => ({ wall: now(), steady: monotonic(), boot: thisBoot })
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

  /** Within a transaction: the wall clock as it was at the first use since the host booted, and the time since then. */
  #now(): number {
    const at = this.#instant()
    const stored = this.#store.db.get(['time'])
    const first = stored === undefined ? undefined : decodeInstant(stored)
    if (first !== undefined && isSameBoot(first, at)) return first.wall + at.steady - first.steady
    this.#store.db.put(['time'], encodeInstant(at))
    return at.wall
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

function encodeInstant({ wall, steady, boot }: HostInstant): Buffer {
  return Buffer.from(JSON.stringify([wall, steady, boot]))
}

/** @throws {Error} if the bytes are not an instant */
function decodeInstant(bytes: Buffer): HostInstant {
  const [wall, steady, boot] = headOf(Buffer.concat([bytes, Buffer.from('\n')]))
  if (typeof wall !== 'number' || typeof steady !== 'number' || typeof boot !== 'number') throw foreign(bytes)
  return { wall, steady, boot }
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
