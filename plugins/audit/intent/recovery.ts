// Recovers the intents of dead processes: each intent without a record becomes a record with an unknown outcome.
// One process at a time does this, so that no record is written twice. What another than a process of this log has written
// is moved aside, and keeps nobody's intents from being recovered.
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '@svc/core'
import { defined, messageOf, parseJsonObject, sha256Hex } from '@svc/core/json'
import { tryLock } from '../log/files/directory-lock.js'
import { type FileSystem, openExisting, READ_WRITE_CREATE } from '../log/files/file-system.js'
import { linesOf } from '../log/files/lines.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { AuditError, SignerKeyError, systemCode } from '../log/format/errors.js'
import { dailyLog, INTENTS_FOLDER, utcDayOf } from '../log/format/paths.js'
import { objectIn } from '../log/format/stored-record.js'
import type { SignatureVerifier } from '../log/format/verifier.js'
import { verifierFromLine } from '../log/keys/public-key.js'
import { hasSigned } from '../log/keys/signatures.js'
import { BatchChain, type IntentLog } from './batch-chain.js'
import { entryOf, type Intent, isCallRecord, OUTCOME_UNKNOWN } from './entry.js'
import { Segment, setAside } from './segment.js'

// Reads the journal of a dead process as far as it is signed. Only signed lengths decide how much is read at once.

/** The facts by which the intents of a file are those of a process of this log. */
interface IntentTrust {
  readonly logId: string | null
  /** Keys that the log trusts now. */
  readonly keys: readonly Pick<SignatureVerifier, 'keyId' | 'verify'>[]
}

interface JournalContent {
  /** Intents without an outcome, in written order. */
  readonly open: Intent[]
  /** Why the file, or what follows its last valid batch, is refused. */
  readonly refused?: string
}

// A first line has about 400 bytes, that of a batch about 200.
const MAX_LINE_BYTES = 4096
// Batches between two turns of the event loop.
const SLICE = 64

/** An incomplete end was never acknowledged and is ignored. */
async function readJournal(segment: Segment, trust: IntentTrust): Promise<JournalContent> {
  const open = new Map<number, Intent>()
  const refused = await readInto(open, segment, trust)
  return { open: [...open.values()], ...defined({ refused }) }
}

async function readInto(
  open: Map<number, Intent>,
  segment: Segment,
  trust: IntentTrust,
): Promise<string | undefined> {
  const { size } = segment
  const first = lineAt(segment, 0)
  if (first === undefined) return size < MAX_LINE_BYTES ? undefined : 'its first line is too long'
  const session = sessionOf(first, segment.name, trust)
  if (typeof session === 'string') return session
  const chain = new BatchChain(`${first}\n`)
  for (let at = Buffer.byteLength(first) + 1; at < size; ) {
    const what = `batch ${chain.next}`
    const line = lineAt(segment, at)
    if (line === undefined && size - at < MAX_LINE_BYTES) return undefined
    const batch = line === undefined ? undefined : chain.verified(line, session)
    if (line === undefined || batch === undefined) return `${what} is not signed by the process that it is of`
    const start = at + Buffer.byteLength(line) + 1
    at = start + batch.bytes
    if (at > size) return undefined
    const bytes = segment.read(start, batch.bytes)
    if (sha256Hex(bytes) !== batch.sha256) return `the lines of ${what} were changed`
    const wrong = take(open, bytes.toString())
    if (wrong !== undefined) return `${what} ${wrong}`
    if (chain.next % SLICE === 0) await nextTurn()
  }
  return undefined
}

/** The line that begins at the offset; undefined without a newline within the limit. */
function lineAt(segment: Segment, offset: number): string | undefined {
  const bytes = segment.read(offset, MAX_LINE_BYTES)
  const end = bytes.indexOf('\n')
  return end < 0 ? undefined : bytes.toString('utf8', 0, end)
}

/** The key of the process, or why the file is refused. */
function sessionOf(
  firstLine: string,
  name: string,
  { logId, keys }: IntentTrust,
): SignatureVerifier | string {
  const line = parseJsonObject(firstLine)
  const { intents, log_id: of, file, session, key_id: keyId } = line ?? {}
  if (line === undefined || intents !== 1) return 'its first line is not one of a journal of intents'
  const signer = keys.find((key) => key.keyId === keyId)
  if (signer === undefined || !hasSigned(line, signer))
    return 'no key that the log trusts has signed its first line'
  if (file !== name || of !== logId) return 'its first line is of another file or log'
  try {
    return verifierFromLine(String(session))
  } catch (error) {
    if (error instanceof SignerKeyError) return 'its first line names no key'
    throw error
  }
}

/** Takes the intents and outcomes of a batch; returns what is wrong with a line. */
function take(open: Map<number, Intent>, lines: string): string | undefined {
  for (const line of lines.split('\n').slice(0, -1)) {
    const entry = entryOf(line)
    if (entry === undefined) return 'has a line that is neither an intent nor an outcome'
    if (typeof entry === 'number') open.delete(entry)
    else if (!isCallRecord(entry.record)) return 'has an intent that is not of a call'
    else open.set(entry.serial, entry)
  }
  return undefined
}

const LOCK_FILE = '.lock'
/** System errors of opening a name that is not a file for reading and writing. */
const NOT_A_FILE = new Set(['EISDIR', 'ELOOP', 'ENXIO'])
const REFUSED_FOLDER = 'refused'
/** Refused files between two sweeps: a process that plants many must not delay the start of others. */
const MAX_REFUSED = 1000

export interface IntentOptions {
  /** The directory of the log. */
  readonly dir: string
  readonly port: FileSystem
  readonly logger: Logger
  readonly log: IntentLog & {
    /** Keys that the log trusts now. */
    trustedKeys(): Promise<IntentTrust['keys']>
  }
  /** Id of the current signing key; null if the writer signs with a key of its own. */
  readonly keyId: string | null
  append(record: AuditEnvelope): Promise<void>
}

export interface RefusedJournal {
  readonly file: string
  readonly reason: string
}

interface Recovered {
  /** Records written. */
  made: number
  readonly refused: RefusedJournal[]
  /** Errors of journals that could not be read or recorded; the next call retries them. */
  readonly failures: unknown[]
}

interface RecordedIntents {
  readonly made: number
  /** Why some of them can have no record. */
  readonly refused?: string
}

/** Errors with which the log refuses a record for what is in it. */
const REFUSES_RECORD = new Set(['bad_envelope', 'bad_timestamp'])

export class IntentRecovery {
  readonly #options: IntentOptions
  readonly #folder: string
  // Refused files that could not be moved are reported once.
  readonly #left = new Set<string>()

  constructor(options: IntentOptions) {
    this.#options = options
    this.#folder = join(options.dir, INTENTS_FOLDER)
  }

  /** Recovers the journals of dead processes. */
  async recover(): Promise<Recovered> {
    const { port } = this.#options
    const recovered: Recovered = { made: 0, refused: [], failures: [] }
    // Without the folder no process has written an intent here.
    const lock = openExisting(port, join(this.#folder, LOCK_FILE), READ_WRITE_CREATE)
    if (lock === undefined) return recovered
    try {
      // Another process is recovering.
      if (!tryLock(lock)) return recovered
      for (const name of Segment.names(port, this.#folder)) {
        if (recovered.refused.length === MAX_REFUSED) break
        if (!this.#left.has(name)) await this.#tryOne(name, recovered)
        await nextTurn()
      }
    } finally {
      port.closeSync(lock)
    }
    return recovered
  }

  /** Writes records for those `intents` whose calls have none. Resolves when all are on disk, which can be. */
  async record(intents: readonly Intent[]): Promise<RecordedIntents> {
    if (intents.length === 0) return { made: 0 }
    const missing = await unrecorded(this.#options.dir, intents)
    const ends = await Promise.allSettled(missing.map(({ record }) => this.#append(record)))
    const failed = ends.find((end) => end.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    const results = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
    const refused = results.find((result) => typeof result === 'string')
    const made = results.filter((result) => result === true).length
    return typeof refused === 'string' ? { made, refused } : { made }
  }

  async #tryOne(name: string, recovered: Recovered): Promise<void> {
    try {
      const { made, refused: reason } = await this.#recoverOne(name)
      recovered.made += made
      if (reason !== undefined) recovered.refused.push({ file: name, reason })
    } catch (error) {
      recovered.failures.push(error)
    }
  }

  async #recoverOne(name: string): Promise<RecordedIntents> {
    const { port, log, logger } = this.#options
    const path = join(this.#folder, name)
    let segment: Segment | undefined
    try {
      segment = Segment.claim(port, this.#folder, name)
    } catch (error) {
      if (!NOT_A_FILE.has(systemCode(error) ?? '')) throw error
      return { made: 0, refused: this.#setAside(path, 'it is not a file') }
    }
    if (segment === undefined) return { made: 0 }
    let isDone = false
    try {
      const trust = { logId: log.logId(), keys: segment.size === 0 ? [] : await log.trustedKeys() }
      const { open, refused: unread } = await readJournal(segment, trust)
      const { made, refused: unrecorded } = await this.record(open)
      if (made > 0) {
        const what = 'calls of a dead process were recorded with an unknown outcome'
        logger.warn({ file: path, calls: made }, what)
      }
      const refused = unread ?? unrecorded
      if (refused !== undefined) return { made, refused: this.#setAside(path, refused) }
      isDone = true
      return { made }
    } finally {
      if (isDone) segment.remove()
      else segment.close()
    }
  }

  /** Moves a file away, so that it is looked at once. Returns why. */
  #setAside(path: string, reason: string): string {
    try {
      setAside(this.#options.port, path, join(this.#folder, REFUSED_FOLDER))
      return reason
    } catch (error) {
      this.#left.add(basename(path))
      return `${reason}, and it cannot be moved: ${messageOf(error)}`
    }
  }

  /** True if a record was written, false if retention has removed its day; else the reason why the log cannot have it. */
  async #append(record: AuditEnvelope): Promise<boolean | string> {
    try {
      await this.#options.append(this.#unknown(record))
      return true
    } catch (error) {
      const code = error instanceof AuditError ? error.code : ''
      if (code === 'day_removed') return false
      if (REFUSES_RECORD.has(code)) return `has an intent that cannot be recorded: ${messageOf(error)}`
      throw error
    }
  }

  /** Fixed members: whatever an intent says, its outcome is unknown. */
  #unknown(record: AuditEnvelope): AuditEnvelope {
    const { key_id: _of, ...rest } = record
    const { keyId } = this.#options
    return {
      ...rest,
      status: 'error',
      error: OUTCOME_UNKNOWN,
      sent: 'unknown',
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
