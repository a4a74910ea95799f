// Recovers the intents of dead processes: each intent without a record becomes a record with an unknown outcome.
// One process at a time does this, so that no record is written twice.
import { join } from 'node:path'
import type { Logger } from '@svc/core'
import { type FileSystem, openExisting, READ_WRITE_CREATE } from '../log/files/file-system.js'
import { tryLock } from '../log/files/kernel-lock.js'
import { linesOf } from '../log/files/lines.js'
import { utcDayOf } from '../log/format/day.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { systemCode } from '../log/format/errors.js'
import { dailyLog, INTENTS_FOLDER } from '../log/format/paths.js'
import { objectIn } from '../log/format/stored-record.js'
import { type Intent, OUTCOME_UNKNOWN, readJournal } from './entry.js'
import { Segment } from './segment.js'

const LOCK_FILE = '.lock'

export interface IntentParts {
  /** The directory of the log. */
  readonly dir: string
  readonly port: FileSystem
  readonly logger: Logger
  /** Id of the current signing key; null if the writer signs with a key of its own. */
  readonly keyId: string | null
  append(record: AuditEnvelope): Promise<void>
}

export class IntentRecovery {
  readonly #parts: IntentParts
  readonly #folder: string
  // Damaged files are reported once and kept.
  readonly #damaged = new Set<string>()

  constructor(parts: IntentParts) {
    this.#parts = parts
    this.#folder = join(parts.dir, INTENTS_FOLDER)
  }

  /** Recovers the journals of dead processes. Resolves with the number of records written. */
  async recover(): Promise<number> {
    const { port } = this.#parts
    // Without the folder no process has written an intent here.
    const lock = openExisting(port, join(this.#folder, LOCK_FILE), READ_WRITE_CREATE)
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

const SPAN_MEMBER = Buffer.from('"span_id":"')
const QUOTE = 0x22

/** The intents whose call has no record in the log under `dir`. */
async function unrecorded(dir: string, intents: readonly Intent[]): Promise<Intent[]> {
  const days = new Map<string, Intent[]>()
  for (const intent of intents) {
    const day = utcDayOf(intent.record.ts) ?? ''
    const same = days.get(day)
    if (same === undefined) days.set(day, [intent])
    else same.push(intent)
  }
  const left: Intent[] = []
  for (const [day, ofDay] of days) left.push(...(await unrecordedOn(join(dir, dailyLog(day)), ofDay)))
  return left
}

async function unrecordedOn(path: string, intents: readonly Intent[]): Promise<Intent[]> {
  const missing = new Map(intents.map((intent) => [intent.record.span_id, intent]))
  const from = Math.min(...intents.map((intent) => intent.from))
  try {
    for await (const { bytes } of linesOf(path, from)) {
      if (missing.size === 0) break
      const span = spanOf(bytes)
      const intent = span === undefined ? undefined : missing.get(span)
      // The byte search finds candidates; the parsed record decides.
      if (intent !== undefined && isOf(intent, bytes)) missing.delete(intent.record.span_id)
    }
  } catch (error) {
    // ENOENT: a day without a daily log has no records.
    if (systemCode(error) !== 'ENOENT') throw error
  }
  return [...missing.values()]
}

/** In a canonical record no string holds an unescaped quote, and no object follows this member. */
function spanOf(line: Buffer): string | undefined {
  const at = line.lastIndexOf(SPAN_MEMBER)
  if (at < 0) return undefined
  const start = at + SPAN_MEMBER.length
  return line.toString('latin1', start, line.indexOf(QUOTE, start))
}

function isOf({ record }: Intent, line: Buffer): boolean {
  const found = objectIn(line)
  return found !== undefined && found['trace_id'] === record.trace_id && found['span_id'] === record.span_id
}
