// What dead processes were about to send: each intent without a record becomes one that says that its outcome is
// unknown. One process at a time does this, so that none is written twice.

import { join } from 'node:path'
import type { Logger } from '@svc/core'
import { FILE_MODE, type FileSystem, READ_WRITE_CREATE } from '../log/files/file-system.js'
import { tryLock } from '../log/files/kernel-lock.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { systemCode } from '../log/format/errors.js'
import { INTENTS_FOLDER } from '../log/format/paths.js'
import { type Intent, OUTCOME_UNKNOWN, readJournal } from './entry.js'
import { Segment } from './segment.js'
import { unrecorded } from './unrecorded.js'

const LOCK_FILE = '.lock'

export interface OrphanParts {
  /** The directory of the log. */
  readonly dir: string
  readonly port: FileSystem
  readonly logger: Logger
  /** Of the key that signs now; null where the writer signs with a key of its own. */
  readonly keyId: string | null
  append(record: AuditEnvelope): Promise<void>
}

export class Orphans {
  readonly #parts: OrphanParts
  readonly #folder: string
  // Files that could not be read to their end are reported once and kept.
  readonly #damaged = new Set<string>()

  constructor(parts: OrphanParts) {
    this.#parts = parts
    this.#folder = join(parts.dir, INTENTS_FOLDER)
  }

  /** Records what dead processes left. Resolves with the number of records made. */
  async adopt(): Promise<number> {
    const { port } = this.#parts
    const lock = this.#openLock()
    if (lock === undefined) return 0
    try {
      // Another process is at it.
      if (!tryLock(lock)) return 0
      let made = 0
      for (const name of Segment.names(port, this.#folder)) {
        if (!this.#damaged.has(name)) made += await this.#adoptOne(name)
      }
      return made
    } finally {
      port.closeSync(lock)
    }
  }

  /** Makes records of those `intents` whose calls have none. Resolves, with their number, when all are on disk. */
  async record(intents: readonly Intent[]): Promise<number> {
    if (intents.length === 0) return 0
    const missing = await unrecorded(this.#parts.dir, intents)
    await Promise.all(missing.map(({ record }) => this.#parts.append(this.#unknown(record))))
    return missing.length
  }

  async #adoptOne(name: string): Promise<number> {
    const { port, logger } = this.#parts
    const segment = Segment.adopt(port, this.#folder, name)
    if (segment === undefined) return 0
    let done = false
    try {
      const { open, damaged } = readJournal(segment.read())
      const made = await this.record(open)
      done = damaged === 0
      if (!done) {
        this.#damaged.add(name)
        logger.error({ file: segment.path, lines: damaged }, 'a journal of intents is damaged; it is kept')
      }
      if (made > 0) {
        logger.warn(
          { file: segment.path, calls: made },
          'calls of a dead process were recorded, outcome unknown',
        )
      }
      return made
    } finally {
      if (done) segment.remove()
      else segment.close()
    }
  }

  /** Whoever may write the journal must not get any other kind of record signed by it. */
  #unknown(record: AuditEnvelope): AuditEnvelope {
    const { key_id: _of, ...rest } = record
    const { keyId } = this.#parts
    return {
      ...rest,
      status: 'error',
      error: OUTCOME_UNKNOWN,
      output_sha256: null,
      ...(keyId === null ? {} : { key_id: keyId }),
    }
  }

  #openLock(): number | undefined {
    try {
      return this.#parts.port.openSync(join(this.#folder, LOCK_FILE), READ_WRITE_CREATE, FILE_MODE)
    } catch (error) {
      // No folder: no process has ever left an intent here.
      if (systemCode(error) === 'ENOENT') return undefined
      throw error
    }
  }
}
