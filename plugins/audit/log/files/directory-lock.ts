// The exclusive lock for appending, repair and retention across processes. It belongs to an open file description,
// so the kernel releases it when its holder dies. The file names its owner: if its path leads to another file, or the
// directory was copied, the lock is not the one that the other writers hold.

import { join } from 'node:path'
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { LOCK_FILE } from '../format/paths.js'
import { FILE_MODE, type FileSystem, READ_WRITE_CREATE, writeFully } from './file-system.js'
import { requireFrom } from './require-from.js'

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

// The content of the lock's file: the writers' mark, then the file's own inode and the id of the log. A copy has another
// inode, so a copied or restored directory is recognised.

const MARK_BYTES = 16
const CLEAR = markOf('-')

function markOf(text: string): Buffer {
  return Buffer.from(text.padEnd(MARK_BYTES - 1).concat('\n'))
}

export interface LockOwner {
  /** Inode of the lock file when it was written. */
  readonly inode: string
  readonly logId: string
}

/** A cleared mark, and the owner if there is one. */
export function encodeLock(owner: LockOwner | undefined): Buffer {
  return owner === undefined ? CLEAR : Buffer.concat([CLEAR, Buffer.from(`${owner.inode} ${owner.logId}\n`)])
}

/** Undefined if the file has no complete owner's line. `bytes` is the whole file. */
export function parseLockOwner(bytes: Uint8Array): LockOwner | undefined {
  const text = Buffer.from(bytes).toString('latin1', MARK_BYTES)
  const [, inode, logId] = /^(\d{1,20}) ([0-9a-f]{32})\n$/.exec(text) ?? []
  return inode === undefined || logId === undefined ? undefined : { inode, logId }
}

/**
 * Says that the holder of the lock is writing the daily log and the agent files of a day. A process that takes the lock and
 * finds the mark knows that the last holder died between the two. Call under the lock.
 */
export class DirtyMark {
  readonly #port: FileSystem
  readonly #fd: number
  readonly #read = Buffer.alloc(MARK_BYTES)

  constructor(fd: number, port: FileSystem) {
    this.#port = port
    this.#fd = fd
  }

  set(day: string): void {
    writeFully(this.#port, this.#fd, markOf(day), 0, MARK_BYTES, 0)
  }

  clear(): void {
    writeFully(this.#port, this.#fd, CLEAR, 0, MARK_BYTES, 0)
  }

  /** The day that a holder left marked when it died. */
  day(): string | undefined {
    const got = this.#port.readSync(this.#fd, this.#read, 0, MARK_BYTES, 0)
    if (got === 0 || this.#read[0] === CLEAR[0]) return undefined
    return /^\d{4}-\d\d-\d\d/.exec(this.#read.toString('latin1', 0, got))?.[0]
  }
}

// The kernel's locks on open files, through fs-native-extensions. The first lock loads the native binding, so that an
// import of the library does not pay for it.

let loaded: typeof import('fs-native-extensions') | undefined

function binding(): typeof import('fs-native-extensions') {
  loaded ??= requireFrom(import.meta.url)('fs-native-extensions') as typeof import('fs-native-extensions')
  return loaded
}

/** Takes the exclusive lock; false if another open file description holds it. */
export function tryLock(fd: number): boolean {
  return binding().tryLock(fd)
}

/** Resolves when the exclusive lock is taken. Waits on a thread of the process's pool. */
export function waitForLock(fd: number): Promise<void> {
  return binding().waitForLock(fd)
}

export function unlock(fd: number): void {
  binding().unlock(fd)
}

/** A file whose lock one process holds until it is released, or its holder dies. */
export class HeldLock {
  readonly #path: string
  readonly #port: FileSystem
  #fd: number | undefined

  constructor(path: string, port: FileSystem) {
    this.#path = path
    this.#port = port
  }

  get isHeld(): boolean {
    return this.#fd !== undefined
  }

  /** Takes the lock if it is free. Never waits, because a wait would occupy a thread. */
  acquire(): boolean {
    if (this.#fd !== undefined) return true
    const fd = this.#port.openSync(this.#path, READ_WRITE_CREATE, FILE_MODE)
    let isLocked = false
    try {
      isLocked = tryLock(fd)
    } finally {
      if (!isLocked) this.#port.closeSync(fd)
    }
    if (isLocked) this.#fd = fd
    return isLocked
  }

  release(): void {
    if (this.#fd !== undefined) this.#port.closeSync(this.#fd)
    this.#fd = undefined
  }
}
