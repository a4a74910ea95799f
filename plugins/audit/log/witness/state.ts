// What a witness has cosigned: one file for each log, replaced atomically and synced before an answer leaves. One
// process at a time uses the directory.

import { hash } from 'node:crypto'
import { join } from 'node:path'
import {
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  READ_WRITE_CREATE,
  readExisting,
  syncDirectorySync,
  writeFully,
} from '../files/file-system.js'
import { tryLock } from '../files/kernel-lock.js'
import { requireLocal } from '../files/local-file-system.js'
import { AuditError } from '../format/errors.js'
import { judgeCosignature } from '../seal/cosignature.js'
import { parseNote } from '../seal/note.js'
import type { NamedKey } from '../seal/vkey.js'
import { type Head, parseAnyCheckpoint } from '../tree/checkpoint.js'

const LOCK = '.svc-witness-lock'
const MAX_CONFLICT_BYTES = 1_048_576

export class WitnessState {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #own: NamedKey
  readonly #lock: number
  readonly #latest = new Map<string, Head>()

  /** @throws {AuditError} `lock_failed` while another process uses the directory. */
  constructor(dir: string, port: FileSystem, own: NamedKey) {
    this.#dir = dir
    this.#port = port
    this.#own = own
    port.mkdirSync(dir, { recursive: true, mode: DIRECTORY_MODE })
    requireLocal(port, dir)
    this.#lock = port.openSync(join(dir, LOCK), READ_WRITE_CREATE, FILE_MODE)
    if (!tryLock(this.#lock)) {
      port.closeSync(this.#lock)
      throw new AuditError('lock_failed', `another process uses ${dir}`)
    }
  }

  /**
   * The newest checkpoint of the log that this witness cosigned; undefined where it never did.
   *
   * @throws {AuditError} `read_failed` where the file is damaged: it must not count as none.
   */
  latest(origin: string): Head | undefined {
    const known = this.#latest.get(origin)
    if (known !== undefined) return known
    const file = join(this.#dir, `${originHash(origin)}.checkpoint`)
    const text = readExisting(this.#port, file, (fd) => readText(this.#port, fd))
    if (text === undefined) return undefined
    const checkpoint = this.#parse(text)
    if (checkpoint?.origin !== origin) {
      throw new AuditError(
        'read_failed',
        `${file} is not a checkpoint of ${origin} that this witness cosigned`,
      )
    }
    this.#latest.set(origin, checkpoint)
    return checkpoint
  }

  /** The newest cosigned checkpoint with its signatures, for the monitors of the log. */
  signedText(hashOfOrigin: string): string | undefined {
    const text = readExisting(this.#port, join(this.#dir, `${hashOfOrigin}.checkpoint`), (fd) =>
      readText(this.#port, fd),
    )
    return text === undefined || this.#parse(text) === undefined ? undefined : text
  }

  /** Stores the cosigned checkpoint, on disk when it returns. */
  store(checkpoint: Head, signed: string): void {
    const port = this.#port
    const file = join(this.#dir, `${originHash(checkpoint.origin)}.checkpoint`)
    const temporary = `${file}.new`
    const fd = port.openSync(temporary, READ_WRITE_CREATE, FILE_MODE)
    try {
      port.ftruncateSync(fd, 0)
      writeFully(port, fd, Buffer.from(signed), 0, Buffer.byteLength(signed), 0)
      port.fsyncSync(fd)
    } finally {
      port.closeSync(fd)
    }
    port.renameSync(temporary, file)
    syncDirectorySync(port, this.#dir)
    this.#latest.set(checkpoint.origin, checkpoint)
  }

  /** Keeps a checkpoint that the log signed and that does not follow from the newest one: it may prove a fork. */
  keepConflict({ origin }: Head, signed: string): void {
    const port = this.#port
    const file = join(this.#dir, `${originHash(origin)}.conflicts`)
    const fd = port.openSync(file, READ_WRITE_CREATE, FILE_MODE)
    try {
      const { size } = port.fstatSync(fd)
      const bytes = Buffer.from(signed)
      if (size + bytes.length > MAX_CONFLICT_BYTES || readText(port, fd).includes(signed)) return
      writeFully(port, fd, bytes, 0, bytes.length, size)
      port.fsyncSync(fd)
    } finally {
      port.closeSync(fd)
    }
  }

  close(): void {
    this.#port.closeSync(this.#lock)
  }

  #parse(text: string): Head | undefined {
    const note = parseNote(text)
    if (note === undefined || judgeCosignature(note, this.#own).kind !== 'valid') return undefined
    return parseAnyCheckpoint(note.text)
  }
}

/** Lower-case hexadecimal SHA-256. */
export function originHash(origin: string): string {
  return hash('sha256', origin, 'hex')
}

function readText(port: FileSystem, fd: number): string {
  const bytes = Buffer.alloc(port.fstatSync(fd).size)
  const got = port.readSync(fd, bytes, 0, bytes.length, 0)
  return bytes.toString('utf8', 0, got)
}
