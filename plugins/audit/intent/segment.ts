// One file of an intent journal. Its writer holds a kernel lock for its lifetime, so a process that gets the lock
// knows that the file will not grow.
import { randomBytes } from 'node:crypto'
import { basename, join } from 'node:path'
import { tryLock } from '../log/files/directory-lock.js'
import {
  CREATE_APPEND_NEW,
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  fromCallback,
  openExisting,
  READ_WRITE,
  writeFully,
} from '../log/files/file-system.js'
import { BatchChain, type IntentLog, type ProcessKey } from './batch-chain.js'

// A file of an intent journal as its process writes it: the signed first line, then batches.

export class SignedSegment {
  readonly #segment: Segment
  readonly #key: ProcessKey
  readonly #firstLine: string
  #chain: BatchChain

  private constructor(segment: Segment, key: ProcessKey, firstLine: string) {
    this.#segment = segment
    this.#key = key
    this.#firstLine = firstLine
    this.#chain = new BatchChain(firstLine)
  }

  /** Creates a file with its first line, which shows whether the disk accepts data. */
  static async create(
    port: FileSystem,
    folder: string,
    key: ProcessKey,
    log: IntentLog,
  ): Promise<SignedSegment> {
    const segment = Segment.create(port, folder)
    try {
      const firstLine = await key.firstLine(segment.name, log)
      segment.write(Buffer.from(firstLine))
      return new SignedSegment(segment, key, firstLine)
    } catch (error) {
      segment.remove()
      throw error
    }
  }

  get size(): number {
    return this.#segment.size
  }

  /** Appends a batch. After an error the file is not written again. Not durable before `sync`. */
  write(lines: string): void {
    if (lines !== '') this.#segment.write(this.#chain.signed(Buffer.from(lines), this.#key))
  }

  sync(): Promise<void> {
    return this.#segment.sync()
  }

  /** Needs no sync: intents that reappear after a power cut have their records in the log. */
  empty(): void {
    this.#segment.truncate(Buffer.byteLength(this.#firstLine))
    this.#chain = new BatchChain(this.#firstLine)
  }

  /** Removes the file, then releases its lock. */
  remove(): void {
    this.#segment.remove()
  }

  /** Releases the lock: another process may then claim the file. */
  close(): void {
    this.#segment.close()
  }
}

const SUFFIX = '.journal'

export class Segment {
  readonly path: string
  readonly #port: FileSystem
  readonly #fd: number
  #size: number

  private constructor(path: string, port: FileSystem, fd: number) {
    this.path = path
    this.#port = port
    this.#fd = fd
    this.#size = port.fstatSync(fd).size
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

  get name(): string {
    return basename(this.path)
  }

  get size(): number {
    return this.#size
  }

  /** Appends; truncates a partial write. Not durable before `sync`. */
  write(bytes: Buffer): void {
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

  truncate(size: number): void {
    this.#port.ftruncateSync(this.#fd, size)
    this.#size = size
  }

  /** At most `length` bytes from `offset`; fewer at the end of the file. */
  read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(Math.min(length, Math.max(0, this.#size - offset)))
    let filled = 0
    while (filled < bytes.length) {
      const got = this.#port.readSync(this.#fd, bytes, filled, bytes.length - filled, offset + filled)
      if (got === 0) break
      filled += got
    }
    return bytes.subarray(0, filled)
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

/** Moves what has the name of a journal to another folder. Its name there has a random end, as it may be taken. */
export function setAside(port: FileSystem, path: string, folder: string): void {
  port.mkdirSync(folder, { recursive: true, mode: DIRECTORY_MODE })
  port.renameSync(path, join(folder, `${basename(path)}-${randomBytes(6).toString('hex')}`))
}
