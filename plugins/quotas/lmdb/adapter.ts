// Counts on this host's disk: several processes share a directory, and a restart forgets nothing. Every operation is
// one asynchronous transaction: a synchronous one would block the event loop behind whichever process writes.
import type { QuotaAdapter } from '@svc/core'
import { makeDirectories, messageOf } from '@svc/core'
import { open } from 'lmdb'
import { checkDailyLimit, DAY_MS, dayOf } from '../day.js'
import { keyOf } from '../key.js'
import { checkedSize, TokenBucket } from '../token-bucket.js'
import { checkHeader } from './header.js'
import { decodeBucket, decodeCount, encodeBucket, encodeCount } from './record.js'

export interface LmdbQuotaOptions {
  /** On a local filesystem; made where it is missing. */
  readonly dir: string
  /** Milliseconds since the epoch, for operations that are told no time. */
  readonly now?: () => number
}

/** A day's count, or a bucket. The first element keeps them apart and, among the counts, old days in front. */
type Key = ['count', day: number, key: string] | ['bucket', key: string]

/** Old records that a new one clears away: more than one, so that clearing gains on writing. */
const SWEPT = 2

/** The counts are visible to every process when an operation resolves, and flushed to the disk right after. */
export class LmdbQuotaAdapter implements QuotaAdapter {
  #now: () => number
  #db: ReturnType<typeof openIn>
  #sweepFrom: Key = ['bucket', '']
  #underWay = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /** Throws when the directory cannot be opened. */
  constructor({ dir, now = Date.now }: LmdbQuotaOptions) {
    this.#now = now
    try {
      makeDirectories(dir, 0o700)
      checkHeader(dir)
      this.#db = openIn(dir)
    } catch (cause) {
      throw new Error(`the quota store in ${dir} cannot be opened: ${messageOf(cause)}`, { cause })
    }
  }

  async incrDaily(tenant: string, tool: string, limit: number, now = this.#now()) {
    checkDailyLimit(limit)
    const day = dayOf(now)
    const key: Key = ['count', day, keyOf(tenant, tool)]
    const count = await this.#transact(() => {
      const counted = this.#countAt(key)
      if (counted === 0) this.#forgetDaysBefore(day - 1)
      if (counted + 1 <= limit) this.#db.put(key, encodeCount(counted + 1))
      return counted + 1
    })
    return { count, resetAt: (day + 1) * DAY_MS }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now = this.#now()) {
    const size = checkedSize(ratePerSec, burst)
    const key: Key = ['bucket', keyOf(tenant, tool)]
    return this.#transact(() => {
      const stored = this.#db.get(key)
      if (stored === undefined) this.#forgetFullBuckets(now)
      const bucket = stored === undefined ? new TokenBucket(size, now) : decodeBucket(stored)
      const answer = bucket.take(ratePerSec, size, now)
      if (answer.tokens >= 0) this.#db.put(key, encodeBucket(bucket))
      return answer
    })
  }

  async refundDaily(tenant: string, tool: string, now = this.#now()): Promise<void> {
    const key: Key = ['count', dayOf(now), keyOf(tenant, tool)]
    await this.#transact(() => {
      const counted = this.#countAt(key)
      if (counted > 1) this.#db.put(key, encodeCount(counted - 1))
      else if (counted === 1) this.#db.remove(key)
    })
  }

  /** Safe twice; operations under way end first. */
  close(): Promise<void> {
    // LMDB itself would refuse them half way.
    this.#closing ??= Promise.allSettled(this.#underWay).then(() => this.#db.close())
    return this.#closing
  }

  #countAt(key: Key): number {
    const stored = this.#db.get(key)
    return stored === undefined ? 0 : decodeCount(stored)
  }

  // The day before today stays, for calls that began before midnight.
  #forgetDaysBefore(day: number): void {
    const old = this.#db.getKeys({ start: ['count', 0, ''], end: ['count', day, ''], limit: SWEPT })
    for (const key of [...old]) this.#db.remove(key)
  }

  // A bucket that is full again equals a new one. Each process goes round by itself.
  #forgetFullBuckets(now: number): void {
    const range = {
      start: this.#sweepFrom,
      exclusiveStart: true,
      end: ['bucket', '\uffff'] satisfies Key,
      limit: SWEPT,
    }
    const found = [...this.#db.getRange(range)]
    for (const { key, value } of found) if (decodeBucket(value).fullAt <= now) this.#db.remove(key)
    const last = found.at(-1)
    this.#sweepFrom = found.length < SWEPT || last === undefined ? ['bucket', ''] : last.key
  }

  async #transact<T>(act: () => T): Promise<T> {
    if (this.#closing !== undefined) throw new Error('the quota store is closed')
    const transaction = this.#db.transaction(act)
    this.#underWay.add(transaction)
    try {
      return await transaction
    } catch (fault) {
      const { commitError } = fault as { commitError?: Promise<never> }
      if (commitError === undefined) throw fault
      // What went wrong comes as a promise of its own, which nobody else takes.
      const cause = await commitError.catch((reason: unknown) => reason)
      throw new Error(`the quota store could not be written: ${messageOf(cause)}`, { cause })
    } finally {
      this.#underWay.delete(transaction)
    }
  }
}

function openIn(dir: string) {
  return open<Buffer, Key>({
    path: dir,
    noSubdir: false,
    encoding: 'binary',
    // The batch of an event turn has a promise that nobody holds: a commit that fails would end the process.
    eventTurnBatching: false,
  })
}
