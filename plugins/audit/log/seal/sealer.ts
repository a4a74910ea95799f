// Seals the daily logs of a directory at intervals. Of all processes that append to it, the one that holds the
// kernel lock on `.svc-seal-lock` seals, until it ends. The others retry at each interval.

import { join } from 'node:path'
import type { Clock } from '@svc/core'
import { FILE_MODE, READ_WRITE_CREATE } from '../files/file-system.js'
import { tryLock, unlock } from '../files/kernel-lock.js'
import { systemCode } from '../format/errors.js'
import {
  checkpointFile,
  dayOfCheckpointFile,
  dayOfDailyLog,
  REMOVALS_FILE,
  SEAL_LOCK_FILE,
} from '../format/paths.js'
import { type Head, removalOriginOf, removalText } from './checkpoint.js'
import { DaySeal, type SealParts } from './day-seal.js'
import { newestCheckpoint } from './head-file.js'
import { signNote } from './note.js'
import { appendNote } from './note-tail.js'
import { removedHeads } from './removals.js'
import { sealedState } from './sealed-state.js'

const MS_PER_DAY = 86_400_000
// Just after midnight the last calls of the day are still being written.
const AFTER_MIDNIGHT_MS = 100

export interface SealerParts extends SealParts {
  readonly clock: Clock
  readonly intervalMs: number
  readonly onError: (error: Error) => void
}

export class Sealer {
  readonly #dir: string
  readonly #parts: SealerParts
  readonly #fd: number
  readonly #days = new Map<string, DaySeal>()
  /** The last reported error of each day, so that each is reported once. */
  readonly #faults = new Map<string, string>()
  #holds = false
  #work: Promise<unknown> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(dir: string, parts: SealerParts) {
    this.#dir = dir
    this.#parts = parts
    this.#fd = parts.port.openSync(join(dir, SEAL_LOCK_FILE), READ_WRITE_CREATE, FILE_MODE)
  }

  start(): void {
    if (this.#closed) return
    // A day is also sealed at midnight.
    const toMidnight = MS_PER_DAY - (this.#parts.clock.now() % MS_PER_DAY) + AFTER_MIDNIGHT_MS
    this.#timer = setTimeout(
      () => void this.seal().then(() => this.start()),
      Math.min(this.#parts.intervalMs, toMidnight),
    ).unref()
  }

  /** Seals new records, if this process is the one that seals. Errors go to `onError`. */
  seal(): Promise<void> {
    return this.#inTurn(() => this.#sealAll())
  }

  /**
   * Signs a statement that the logs of `days` are about to be removed. Resolves to the days that may be removed:
   * those that are completely sealed, by any process.
   */
  stateRemoval(days: readonly string[]): Promise<string[]> {
    return this.#inTurn(() => this.#state(days))
  }

  /** Seals new records and releases the lock. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    await this.seal()
    if (this.#holds) unlock(this.#fd)
    this.#parts.port.closeSync(this.#fd)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#work.then(work)
    this.#work = turn.then(
      () => undefined,
      // `turn` reports the error to the caller.
      () => undefined,
    )
    return turn
  }

  async #sealAll(): Promise<void> {
    try {
      if (!this.#takeOver()) return
      // Oldest first, so that each day's first checkpoint names the final head of the day before.
      const days = this.#daysOf(dayOfDailyLog)
      for (const gone of this.#days.keys()) if (!days.includes(gone)) this.#days.delete(gone)
      for (const day of days) await this.#sealDay(day)
    } catch (error) {
      this.#report('', error)
    }
  }

  #takeOver(): boolean {
    if (this.#holds || !tryLock(this.#fd)) return this.#holds
    this.#holds = true
    return true
  }

  /** Returns whether all lines of the day are sealed. */
  async #sealDay(day: string): Promise<boolean> {
    const seal = this.#days.get(day) ?? new DaySeal(this.#dir, day, this.#parts)
    this.#days.set(day, seal)
    try {
      await seal.seal(() => this.#headBefore(day))
      this.#faults.delete(day)
      return true
    } catch (error) {
      this.#days.delete(day)
      // ENOENT: retention in another process has removed it.
      const isGone = systemCode(error) === 'ENOENT' && !this.#daysOf(dayOfDailyLog).includes(day)
      if (!isGone) this.#report(day, error)
      return false
    }
  }

  /** The newest head of a day before `day`, from its file or the statements of removal. */
  #headBefore(day: string): Head | undefined {
    const { port } = this.#parts
    const removed = removedHeads(port, this.#dir).findLast((head) => head.day < day)
    for (const earlier of this.#daysOf(dayOfCheckpointFile).reverse()) {
      if (earlier >= day) continue
      if (removed !== undefined && removed.day > earlier) break
      const found = newestCheckpoint(port, join(this.#dir, checkpointFile(earlier)))?.checkpoint
      if (found !== undefined) return { day: earlier, size: found.size, root: found.root }
    }
    return removed
  }

  async #state(days: readonly string[]): Promise<string[]> {
    const removable: string[] = []
    const heads: Head[] = []
    for (const day of days.toSorted()) {
      const sealed = sealedState(this.#parts.port, this.#dir, day)
      if (sealed.isWhole) removable.push(day)
      else this.#parts.logger.warn({ day }, 'kept a log past its retention: it is not sealed to its end')
      if (sealed.isWhole && sealed.head !== undefined) heads.push(sealed.head)
      this.#days.delete(day)
    }
    if (heads.length > 0) await this.#addStatement(heads)
    return removable
  }

  async #addStatement(heads: readonly Head[]): Promise<void> {
    const { signer } = this.#parts
    const origin = removalOriginOf(signer.keyId)
    const note = await signNote(removalText(origin, heads), origin, signer)
    await appendNote(this.#parts, this.#dir, REMOVALS_FILE, note)
  }

  #daysOf(dayOf: (name: string) => string | undefined): string[] {
    const names = this.#parts.port.readdirSync(this.#dir)
    return names.flatMap((name) => dayOf(name) ?? []).sort()
  }

  #report(day: string, cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error(String(cause))
    if (this.#faults.get(day) === error.message) return
    this.#faults.set(day, error.message)
    this.#parts.onError(error)
  }
}
