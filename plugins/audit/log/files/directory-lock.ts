// The exclusive lock for appending, repair and retention across processes. It belongs to an open file description,
// so the kernel releases it when its holder dies.

import { join } from 'node:path'
import type { Clock } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { LOCK_FILE } from '../format/paths.js'
import { FILE_MODE, type FileSystem, READ_WRITE_CREATE } from './file-system.js'
import { tryLock, unlock, waitForLock } from './kernel-lock.js'

export class DirectoryLock {
  readonly #port: FileSystem
  readonly #clock: Clock
  readonly fd: number
  // The lock belongs to the file description, not to the caller: sections of one process queue here, or the
  // release of one would release the lock of the next.
  #queue: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #waitingSince: number | undefined

  constructor(dir: string, port: FileSystem, clock: Clock) {
    this.#port = port
    this.#clock = clock
    this.fd = port.openSync(join(dir, LOCK_FILE), READ_WRITE_CREATE, FILE_MODE)
  }

  /** Milliseconds that a section has been waiting for another process. */
  get waitedMs(): number {
    return this.#waitingSince === undefined ? 0 : this.#clock.monotonic() - this.#waitingSince
  }

  /**
   * Runs the synchronous `section` under the lock: immediately where it is free, else when its holder releases it.
   * The wait happens on a thread, so a stuck process never blocks the event loop.
   */
  run<T>(section: () => T): T | Promise<T> {
    if (this.#waiting === 0 && this.#try()) return this.#release(section)
    this.#waiting++
    this.#waitingSince ??= this.#clock.monotonic()
    const turn = this.#queue.then(async () => {
      try {
        await waitForLock(this.fd)
      } catch (cause) {
        throw new AuditError('lock_failed', `waiting for the log's lock failed: ${messageOf(cause)}`, cause)
      } finally {
        this.#waiting--
        this.#waitingSince = this.#waiting === 0 ? undefined : this.#clock.monotonic()
      }
      return this.#release(section)
    })
    this.#queue = turn.then(
      () => undefined,
      // `turn` reports the error to the caller; the queue only keeps the order.
      () => undefined,
    )
    return turn
  }

  close(): void {
    this.#port.closeSync(this.fd)
  }

  #try(): boolean {
    try {
      return tryLock(this.fd)
    } catch (cause) {
      throw new AuditError('lock_failed', `the log's lock cannot be taken: ${messageOf(cause)}`, cause)
    }
  }

  #release<T>(section: () => T): T {
    try {
      return section()
    } finally {
      unlock(this.fd)
    }
  }
}
