// One file of an intent journal. Its writer holds a kernel lock for its lifetime, so a process that gets the lock
// knows that the file will not grow.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import {
  CREATE_APPEND_NEW,
  FILE_MODE,
  type FileSystem,
  fromCallback,
  openExisting,
  READ_WRITE,
  writeFully,
} from '../log/files/file-system.js'
import { tryLock } from '../log/files/kernel-lock.js'

const SUFFIX = '.journal'

export class Segment {
  readonly path: string
  readonly #port: FileSystem
  readonly #fd: number
  #size = 0

  private constructor(path: string, port: FileSystem, fd: number) {
    this.path = path
    this.#port = port
    this.#fd = fd
  }

  /** Creates a new, locked file. */
  static create(port: FileSystem, folder: string): Segment {
    for (;;) {
      const path = join(folder, `${process.pid}-${randomBytes(6).toString('hex')}${SUFFIX}`)
      const fd = port.openSync(path, CREATE_APPEND_NEW, FILE_MODE)
      // Between the two calls another process may have claimed the new file as one of a dead process.
      if (tryLock(fd) && port.fstatSync(fd).nlink > 0) return new Segment(path, port, fd)
      port.closeSync(fd)
    }
  }

  /** Opens the file if its writer is dead and no other process has claimed it. */
  static claim(port: FileSystem, folder: string, name: string): Segment | undefined {
    const path = join(folder, name)
    const fd = openExisting(port, path, READ_WRITE)
    if (fd === undefined) return undefined
    if (tryLock(fd) && port.fstatSync(fd).nlink > 0) return new Segment(path, port, fd)
    port.closeSync(fd)
    return undefined
  }

  static names(port: FileSystem, folder: string): string[] {
    return port.readdirSync(folder).filter((name) => name.endsWith(SUFFIX))
  }

  get size(): number {
    return this.#size
  }

  /** Appends `text`; truncates a partial write. Not durable before `sync`. */
  write(text: string): void {
    const bytes = Buffer.from(text)
    try {
      writeFully(this.#port, this.#fd, bytes)
      this.#size += bytes.length
    } catch (error) {
      this.#port.ftruncateSync(this.#fd, this.#size)
      throw error
    }
  }

  sync(): Promise<void> {
    return fromCallback((done) => this.#port.fdatasync(this.#fd, done))
  }

  /** Needs no sync: intents that reappear after a power cut have their records in the log. */
  empty(): void {
    this.#port.ftruncateSync(this.#fd, 0)
    this.#size = 0
  }

  read(): string {
    const content = Buffer.alloc(this.#port.fstatSync(this.#fd).size)
    let filled = 0
    while (filled < content.length) {
      const got = this.#port.readSync(this.#fd, content, filled, content.length - filled, filled)
      if (got === 0) break
      filled += got
    }
    return content.toString('utf8', 0, filled)
  }

  /** Removes the file, then releases its lock. */
  remove(): void {
    this.#port.rmSync(this.path, { recursive: false, force: true })
    this.close()
  }

  /** Releases the lock: another process may then claim the file. */
  close(): void {
    this.#port.closeSync(this.#fd)
  }
}
