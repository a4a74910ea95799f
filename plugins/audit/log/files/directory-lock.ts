// The exclusive lock for appending, repair and retention across processes. It belongs to an open file description,
// so the kernel releases it when its holder dies. The file names its owner: if its path leads to another file, or the
// directory was copied, the lock is not the one that the other writers hold.

import { join } from 'node:path'
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { LOCK_FILE } from '../format/paths.js'
import { FILE_MODE, type FileSystem, READ_WRITE_CREATE, writeFully } from './file-system.js'
import { tryLock, unlock, waitForLock } from './kernel-lock.js'
import { encodeLock, type LockOwner, parseLockOwner } from './lock-content.js'

/** The directory of a log, and what work on its files needs. */
export interface LockedDirectory {
  readonly dir: string
  readonly port: FileSystem
  readonly lock: DirectoryLock
  readonly logger: Logger
  readonly clock: Clock
}

export class DirectoryLock {
  readonly #port: FileSystem
  readonly #clock: Clock
  readonly #path: string
  readonly fd: number
  readonly #inode: number
  // The lock belongs to the file description, not to the caller: sections of one process queue here, or the
  // release of one would release the lock of the next.
  #queue: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #waitingSince: number | undefined
  #closed = false

  constructor(dir: string, port: FileSystem, clock: Clock) {
    this.#port = port
    this.#clock = clock
    this.#path = join(dir, LOCK_FILE)
    this.fd = port.openSync(this.#path, READ_WRITE_CREATE, FILE_MODE)
    this.#inode = port.fstatSync(this.fd).ino
  }

  /** The log that the file names; undefined if it names none, or is a copy. Call under the lock. */
  ownedLog(): string | undefined {
    const owner = this.owner()
    return owner?.inode === String(this.#inode) ? owner.logId : undefined
  }

  /** The owner that the file states. Call under the lock. */
  owner(): LockOwner | undefined {
    const bytes = Buffer.alloc(this.#port.fstatSync(this.fd).size)
    this.#port.readSync(this.fd, bytes, 0, bytes.length, 0)
    return parseLockOwner(bytes)
  }

  /** Writes the log's id into the file and syncs it. Call under the lock. */
  own(logId: string): void {
    const content = encodeLock({ inode: String(this.#inode), logId })
    writeFully(this.#port, this.fd, content, 0, content.length, 0)
    this.#port.ftruncateSync(this.fd, content.length)
    this.#port.fsyncSync(this.fd)
  }

  /** Milliseconds that a section has been waiting for another process. */
  get waitedMs(): number {
    return this.#waitingSince === undefined ? 0 : this.#clock.monotonic() - this.#waitingSince
  }

  /**
   * Runs the synchronous `section` under the lock: immediately if it is free, else when its holder releases it.
   * The wait happens on a thread, so a stuck process never blocks the event loop.
   */
  run<T>(section: () => T): T | Promise<T> {
    if (this.#closed) throw new AuditError('closed', 'the audit log is closed')
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
    // `turn` reports the error to the caller; the queue only keeps the order.
    this.#queue = Promise.allSettled([turn])
    return turn
  }

  /** Later sections are refused. A section that waits for another process is still run, and the file is closed after it. */
  close(): void {
    this.#closed = true
    const close = () => this.#port.closeSync(this.fd)
    if (this.#waiting === 0) close()
    else void this.#queue.then(close)
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
      // A removed or replaced file leaves the others with another lock.
      if (this.#port.statSync(this.#path)?.ino !== this.#inode) {
        throw new AuditError(
          'lock_lost',
          `${this.#path} was removed or replaced; the log must be opened again`,
        )
      }
      return section()
    } finally {
      unlock(this.fd)
    }
  }
}
