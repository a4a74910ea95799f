// Recovers the intents of dead processes: each intent without a record becomes a record with an unknown outcome.
// One process at a time does this, so that no record is written twice.

import { join } from 'node:path'
import type { Logger } from '@svc/core'
import { FILE_MODE, type FileSystem, openExisting, READ_WRITE_CREATE } from '../log/files/file-system.js'
import { tryLock } from '../log/files/kernel-lock.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { INTENTS_FOLDER } from '../log/format/paths.js'
import { type Intent, OUTCOME_UNKNOWN, readJournal } from './entry.js'
import { Segment } from './segment.js'
import { unrecorded } from './unrecorded.js'

const LOCK_FILE = '.lock'

export interface IntentRecoveryParts {
  /** The directory of the log. */
  readonly dir: string
  readonly port: FileSystem
  readonly logger: Logger
  /** Id of the current signing key; null where the writer signs with a key of its own. */
  readonly keyId: string | null
  append(record: AuditEnvelope): Promise<void>
}

export class IntentRecovery {
  readonly #parts: IntentRecoveryParts
  readonly #folder: string
  // Damaged files are reported once and kept.
  readonly #damaged = new Set<string>()

  constructor(parts: IntentRecoveryParts) {
    this.#parts = parts
    this.#folder = join(parts.dir, INTENTS_FOLDER)
  }

  /** Recovers the journals of dead processes. Resolves with the number of records written. */
  async recover(): Promise<number> {
    const { port } = this.#parts
    // Without the folder no process has written an intent here.
    const lock = openExisting(port, join(this.#folder, LOCK_FILE), READ_WRITE_CREATE, FILE_MODE)
    if (lock === undefined) return 0
    try {
      // Another process is recovering.
      if (!tryLock(lock)) return 0
      let made = 0
      for (const name of Segment.names(port, this.#folder)) {
        if (!this.#damaged.has(name)) made += await this.#recoverOne(name)
      }
      return made
    } finally {
      port.closeSync(lock)
    }
  }

  /** Writes records for those `intents` whose calls have none. Resolves with their number when all are on disk. */
  async record(intents: readonly Intent[]): Promise<number> {
    if (intents.length === 0) return 0
    const missing = await unrecorded(this.#parts.dir, intents)
    await Promise.all(missing.map(({ record }) => this.#parts.append(this.#unknown(record))))
    return missing.length
  }

  async #recoverOne(name: string): Promise<number> {
    const { port, logger } = this.#parts
    const segment = Segment.claim(port, this.#folder, name)
    if (segment === undefined) return 0
    let done = false
    try {
      const { open, damaged } = readJournal(segment.read())
      const made = await this.record(open)
      done = damaged === 0
      if (!done) {
        this.#damaged.add(name)
        logger.error({ file: segment.path, lines: damaged }, 'an intent journal is damaged; it is kept')
      }
      if (made > 0) {
        logger.warn(
          { file: segment.path, calls: made },
          'calls of a dead process were recorded with an unknown outcome',
        )
      }
      return made
    } finally {
      if (done) segment.remove()
      else segment.close()
    }
  }

  /** Fixed members: a process that can write the journal must not get another kind of record signed. */
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
}
