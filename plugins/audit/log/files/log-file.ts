// One append-only file of whole lines. Writing needs the directory lock; syncing does not.

import { dirname } from 'node:path'
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AuditError, systemCode } from '../format/errors.js'
import {
  APPEND_CREATE,
  CREATE_NEW,
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  fromCallback,
  syncDirectorySync,
  syncPath,
  withFile,
  writeFully,
} from './file-system.js'

const NEWLINE = 0x0a
const SEARCH_BYTES = 65_536

interface LogFileOptions {
  readonly port: FileSystem
  readonly clock: Clock
  readonly logger: Logger
}

export class LogFile {
  readonly path: string
  readonly #port: FileSystem
  readonly #options: LogFileOptions
  #fd: number | undefined
  #inode = -1
  /** Size after our last write: a file of this size ends in a whole line. */
  #knownSize = -1
  // The process that created the file may have died before it synced the name, so each process syncs it once.
  #nameSynced = false
  readonly #cover: string | undefined

  /** @param cover the cover file of a sealed log. If it exists, the day is removed and nothing is appended. */
  constructor(path: string, options: LogFileOptions, cover?: string) {
    this.path = path
    this.#cover = cover
    this.#port = options.port
    this.#options = options
  }

  /**
   * Appends `bytes[0, length)`, completely or not at all. Call under the lock.
   *
   * @returns the size of the file before the write.
   * @throws {AuditError} `write_failed`; the file then has its previous length. `day_removed`. `log_changed` if the file is no
   * longer the one that was written; the next write goes to the one that is there.
   */
  write(bytes: Uint8Array, length: number): number {
    if (this.#cover !== undefined && this.#port.statSync(this.#cover) !== undefined) {
      throw new AuditError('day_removed', `the day of ${this.path} is past its retention and removed`)
    }
    let start: number | undefined
    try {
      start = this.repairTail()
      writeFully(this.#port, this.#open(), bytes, 0, length)
      this.#knownSize = start + length
      return start
    } catch (cause) {
      this.#knownSize = -1
      if (start !== undefined) this.#truncateTo(start)
      if (cause instanceof AuditError) throw cause
      throw new AuditError('write_failed', `writing ${this.path} failed: ${messageOf(cause)}`, cause)
    }
  }

  /**
   * @throws {AuditError} `sync_failed`; the file is then reopened, because its handle reports an error only once.
   */
  async sync(): Promise<void> {
    const fd = this.#fd
    if (fd === undefined) throw new AuditError('sync_failed', `${this.path} is not open`)
    try {
      await fromCallback((done) => this.#port.fdatasync(fd, done))
      if (!this.#nameSynced) {
        await syncPath(this.#port, dirname(this.path))
        this.#nameSynced = true
      }
    } catch (cause) {
      this.close()
      throw new AuditError('sync_failed', `syncing ${this.path} failed: ${messageOf(cause)}`, cause)
    }
  }

  close(): void {
    const fd = this.#fd
    if (fd === undefined) return
    this.#fd = undefined
    this.#knownSize = -1
    this.#port.closeSync(fd)
  }

  #open(): number {
    if (this.#fd === undefined) {
      this.#fd = openCreating(this.#port, this.path)
      this.#inode = this.#port.fstatSync(this.#fd).ino
    }
    return this.#fd
  }

  /**
   * Moves bytes after the last newline to a file of their own. Call under the lock.
   *
   * @returns the size of the file, which then ends in a newline.
   */
  repairTail(): number {
    let fd = this.#open()
    // The name, not the handle: if it still leads to the open file, this is the size of both.
    const named = this.#port.statSync(this.path)
    const isReplaced = named?.ino !== this.#inode
    let size = named?.size ?? 0
    if (isReplaced || size < this.#knownSize) {
      // Writes to this handle would be lost.
      this.close()
      this.#nameSynced = false
      if (this.#cover !== undefined) {
        const what = isReplaced ? 'removed, renamed or replaced' : 'cut'
        throw new AuditError('log_changed', `${this.path} was ${what} while it was written`)
      }
      // Without checkpoints, retention in another process removes files.
      fd = this.#open()
      size = this.#port.fstatSync(fd).size
    }
    if (size === 0 || size === this.#knownSize) return size
    const whole = endOfLastLine(this.#port, fd, size)
    if (whole === size) return size
    const torn = Buffer.alloc(size - whole)
    const got = this.#port.readSync(fd, torn, 0, torn.length, whole)
    const kept = this.#saveTornTail(torn.subarray(0, got))
    this.#port.ftruncateSync(fd, whole)
    this.#options.logger.warn(
      { file: this.path, offset: whole, bytes: torn.length, kept },
      'moved an incomplete line of a writer that died out of the log',
    )
    return whole
  }

  #saveTornTail(torn: Uint8Array): string {
    const time = new Date(this.#options.clock.now()).toISOString().replaceAll(/[-:.]/g, '')
    for (let attempt = 0; ; attempt++) {
      const path = `${this.path}.torn-${time}${attempt === 0 ? '' : `-${attempt}`}`
      if (this.#port.statSync(path) !== undefined) continue
      withFile(this.#port, path, CREATE_NEW, (fd) => {
        writeFully(this.#port, fd, torn)
        this.#port.fsyncSync(fd)
      })
      syncDirectorySync(this.#port, dirname(path))
      return path
    }
  }

  #truncateTo(size: number): void {
    if (this.#fd === undefined) return
    try {
      this.#port.ftruncateSync(this.#fd, size)
    } catch (error) {
      // The next writer finds the torn line and moves it.
      this.#options.logger.error(
        { file: this.path, offset: size, err: error },
        'a failed write could not be truncated',
      )
      this.close()
    }
  }
}

/** Opens for appending; creates the file and its folders if they are missing. */
export function openCreating(port: FileSystem, path: string): number {
  try {
    return port.openSync(path, APPEND_CREATE, FILE_MODE)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
    const first = port.mkdirSync(dirname(path), { recursive: true, mode: DIRECTORY_MODE })
    if (first !== undefined) {
      for (let made = dirname(path); made.length >= first.length; made = dirname(made)) {
        syncDirectorySync(port, dirname(made))
      }
    }
    return port.openSync(path, APPEND_CREATE, FILE_MODE)
  }
}

/** The offset after the last newline in the first `size` bytes. */
export function endOfLastLine(port: FileSystem, fd: number, size: number): number {
  if (size === 0) return 0
  const last = Buffer.alloc(1)
  port.readSync(fd, last, 0, 1, size - 1)
  if (last[0] === NEWLINE) return size
  const chunk = Buffer.alloc(Math.min(size, SEARCH_BYTES))
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length)
    const got = port.readSync(fd, chunk, 0, end - start, start)
    const at = chunk.subarray(0, got).lastIndexOf(NEWLINE)
    if (at >= 0) return start + at + 1
    end = start
  }
  return 0
}
