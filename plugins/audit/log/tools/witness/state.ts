// The state of a witness: for each log a file with the newest cosigned checkpoint and a copy of it, each replaced
// atomically and synced before a response is sent. A file that cannot be read is repaired from the copy. One process at
// a time uses the directory.

import { hash } from 'node:crypto'
import { join } from 'node:path'
import { tryLock } from '../../files/directory-lock.js'
import {
  APPEND_CREATE,
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  READ_WRITE_CREATE,
  readTextFile,
  replaceFile,
  sizeOf,
  withFile,
  writeFully,
} from '../../files/file-system.js'
import { requireLocal } from '../../files/local-file-system.js'
import { checkpointText, type Head, parseAnyCheckpoint } from '../../format/checkpoint.js'
import { judgeCosignature } from '../../format/cosignature.js'
import { AuditError } from '../../format/errors.js'
import { formatNote, parseNote } from '../../format/note.js'
import type { NamedKey } from '../../format/vkey.js'

const LOCK = '.svc-witness-lock'
const MAX_CONFLICT_BYTES = 1_048_576
const COPIES = ['checkpoint', 'checkpoint-copy'] as const

/** A cosigned checkpoint, and its note as it is stored. */
export interface Cosigned {
  readonly head: Head
  readonly signed: string
}

export class WitnessState {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #own: NamedKey
  readonly #lock: number
  readonly #latest = new Map<string, Cosigned>()

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
   * The newest checkpoint of the log that this witness cosigned; undefined if it never did.
   *
   * @throws {AuditError} `read_failed` if the file and its copy are damaged: they must not count as none.
   */
  latest(origin: string): Cosigned | undefined {
    const known = this.#latest.get(origin)
    if (known !== undefined) return known
    const name = originHash(origin)
    const texts = this.#texts(name)
    const states = texts.map((text) => this.#parse(text)).filter((state) => state?.head.origin === origin)
    const newest = newestOf(states)
    if (newest === undefined) {
      if (texts.every((text) => text === undefined)) return undefined
      throw new AuditError(
        'read_failed',
        `no copy of ${name} in ${this.#dir} is a checkpoint of ${origin} that this witness cosigned: restore one from a backup`,
      )
    }
    if (texts.some((text) => text !== newest.signed)) this.store(newest.head, newest.signed)
    this.#latest.set(origin, newest)
    return newest
  }

  /** The newest cosigned checkpoint with its signatures, for the monitors of the log. */
  signedText(hashOfOrigin: string): string | undefined {
    return newestOf(this.#texts(hashOfOrigin).map((text) => this.#parse(text)))?.signed
  }

  /**
   * Stores the cosigned checkpoint, on disk when it returns.
   *
   * @throws {AuditError} `write_failed` for what this class would not read again.
   */
  store(head: Head, signed: string): void {
    const state = this.#parse(signed)
    if (state?.signed !== signed) {
      throw new AuditError('write_failed', `the cosigned checkpoint of ${head.origin} cannot be read again`)
    }
    for (const copy of COPIES) {
      replaceFile(this.#port, join(this.#dir, `${originHash(head.origin)}.${copy}`), Buffer.from(signed))
    }
    this.#latest.set(head.origin, state)
  }

  /**
   * Keeps two heads of one size with different roots, each signed by the log: they prove a fork.
   *
   * @returns whether the fork is new and there was room for it.
   */
  keepFork({ head, signed }: Cosigned, forked: Cosigned): boolean {
    const port = this.#port
    const file = join(this.#dir, `${originHash(head.origin)}.conflicts`)
    const bytes = Buffer.from(signed + forked.signed)
    if ((sizeOf(port, file) ?? 0) + bytes.length > MAX_CONFLICT_BYTES) return false
    if (readTextFile(port, file)?.includes(checkpointText(forked.head))) return false
    withFile(port, file, APPEND_CREATE, (fd) => {
      writeFully(port, fd, bytes)
      port.fsyncSync(fd)
    })
    return true
  }

  close(): void {
    this.#port.closeSync(this.#lock)
  }

  #texts(name: string): (string | undefined)[] {
    return COPIES.map((copy) => readTextFile(this.#port, join(this.#dir, `${name}.${copy}`)))
  }

  /** The state in the form in which it is stored, whatever the number of signature lines that the text has. */
  #parse(text: string | undefined): Cosigned | undefined {
    const note = text === undefined ? undefined : parseNote(text, Number.POSITIVE_INFINITY)
    if (note === undefined || judgeCosignature(note, this.#own).kind !== 'valid') return undefined
    const head = parseAnyCheckpoint(note.text)
    return head === undefined ? undefined : { head, signed: formatNote(note) }
  }
}

function newestOf(states: readonly (Cosigned | undefined)[]): Cosigned | undefined {
  const [first, ...rest] = states.filter((state) => state !== undefined)
  return rest.reduce((newest, state) => {
    return newest !== undefined && newest.head.size >= state.head.size ? newest : state
  }, first)
}

/** Lower-case hexadecimal SHA-256. */
export function originHash(origin: string): string {
  return hash('sha256', origin, 'hex')
}
