// One file of an intent journal. Its kernel lock lives as long as the process that writes it, so whoever gets the
// lock knows that nobody will ever add to the file.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import {
  CREATE_APPEND_NEW,
  FILE_MODE,
  type FileSystem,
  READ,
  READ_WRITE,
  writeFully,
} from '../log/files/file-system.js'
import { tryLock } from '../log/files/kernel-lock.js'
import { settle } from '../log/files/log-file.js'
import { systemCode } from '../log/format/errors.js'

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

  /** A file that nobody else has. */
  static create(port: FileSystem, folder: string): Segment {
    for (;;) {
      const path = join(folder, `${process.pid}-${randomBytes(6).toString('hex')}${SUFFIX}`)
      const fd = port.openSync(path, CREATE_APPEND_NEW, FILE_MODE)
      // Between the two calls another process may have taken the new file for one left by a dead one.
      if (tryLock(fd) && port.fstatSync(fd).nlink > 0) return new Segment(path, port, fd)
      port.closeSync(fd)
    }
  }

  /** The file, if its writer is dead and nobody else has seen to it. */
  static adopt(port: FileSystem, folder: string, name: string): Segment | undefined {
    const path = join(folder, name)
    let fd: number
    try {
      fd = port.openSync(path, READ_WRITE)
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined
      throw error
    }
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

  /** Adds `text`, whole or, by its best effort, not at all. Not durable before `sync`. */
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
    return settle((done) => this.#port.fdatasync(this.#fd, done))
  }

  /** Needs no sync: what comes back after a power cut has its records in the log. */
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

  /** Removes the file, then lets go of it. */
  remove(): void {
    this.#port.rmSync(this.path, { recursive: false, force: true })
    this.close()
  }

  /** Lets go of the file: another process may take its intents for those of a dead one. */
  close(): void {
    this.#port.closeSync(this.#fd)
  }
}

/** Makes the names in `folder` durable. */
export async function syncNames(port: FileSystem, folder: string): Promise<void> {
  const fd = port.openSync(folder, READ)
  try {
    await settle((done) => port.fsync(fd, done))
  } finally {
    port.closeSync(fd)
  }
}
