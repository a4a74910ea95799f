// The write-ahead journal of one process: intents are on disk, signed, before their calls are sent.
// Outcomes need no sync of their own: if one is lost, recovery finds the call's record in the log.

import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import {
  DIRECTORY_MODE,
  type FileSystem,
  sizeOf,
  syncDirectorySync,
  syncPath,
} from '../log/files/file-system.js'
import { requireLocal } from '../log/files/local-file-system.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { AuditError } from '../log/format/errors.js'
import { dailyLog, INTENTS_FOLDER, utcDayOf } from '../log/format/paths.js'
import { type IntentLog, ProcessKey } from './batch-chain.js'
import { type Intent, intentLine, outcomeLine } from './entry.js'
import { SignedSegment } from './segment.js'

/** From this size on a journal is truncated, or its open intents are copied to a new one. */
const SEGMENT_BYTES = 4_194_304
/** Another process may be writing, and truncating, about a batch at the end of a log while its size is read. */
const SIZE_MARGIN = 16_777_216
/** Delay after which outcomes are written without a following intent. */
const OUTCOME_FLUSH_MS = 200

interface PendingIntent {
  readonly intent: Intent
  readonly line: string
  readonly resolve: () => void
  readonly reject: (error: AuditError) => void
}

export class IntentJournal {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #log: IntentLog
  readonly #segmentBytes: number
  readonly #open = new Map<number, PendingIntent>()
  #waiting: PendingIntent[] = []
  #outcomes = ''
  #serial = 0
  #key: ProcessKey | undefined
  #segment: SignedSegment | undefined
  /** Size at which the segment is truncated or replaced. */
  #limit: number
  #sizes = new Map<string, number>()
  #work: Promise<void> | undefined
  #outcomeTimer: NodeJS.Timeout | undefined
  #failure: AuditError | undefined
  #closed = false

  /** @param dir directory of the log. Nothing is opened before the first intent. */
  constructor(dir: string, port: FileSystem, log: IntentLog, segmentBytes: number = SEGMENT_BYTES) {
    this.#dir = dir
    this.#port = port
    this.#log = log
    this.#segmentBytes = segmentBytes
    this.#limit = segmentBytes
  }

  get folder(): string {
    return join(this.#dir, INTENTS_FOLDER)
  }

  /** Why the last intent could not be written; undefined after one succeeds. */
  get failure(): AuditError | undefined {
    return this.#failure
  }

  /**
   * Resolves with the intent when it is on disk. `record` is written for the call if its outcome stays unknown.
   *
   * @throws {AuditError} `intent_failed`, `signer_failed` or `closed`: the call has no intent.
   */
  begin(record: AuditEnvelope): Promise<Intent> {
    if (this.#closed) return Promise.reject(new AuditError('closed', 'the intent journal is closed'))
    return new Promise((resolve, reject) => {
      const intent = { serial: ++this.#serial, from: this.#sizeOfLog(record.ts), record }
      this.#waiting.push({ intent, line: intentLine(intent), resolve: () => resolve(intent), reject })
      this.#work ??= this.#run()
    })
  }

  /** The call's record is on disk. */
  end({ serial }: Intent): void {
    if (!this.#open.delete(serial)) return
    this.#outcomes += outcomeLine(serial)
    this.#outcomeTimer ??= setTimeout(() => this.#flushOutcomes(), OUTCOME_FLUSH_MS).unref()
  }

  /** Tests whether intents can be written again. */
  async probe(): Promise<void> {
    if (this.#failure === undefined || this.#closed) return
    this.#work ??= this.#run()
    await this.#work
  }

  /** Open intents stay in the file for the next process that opens the directory. Safe to call twice. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#outcomeTimer)
    await this.#work
    const segment = this.#segment
    if (segment === undefined) return
    this.#segment = undefined
    if (this.#open.size === 0) segment.remove()
    else segment.close()
  }

  async #run(): Promise<void> {
    // All intents of this event loop turn share a sync.
    await new Promise((resolve) => setImmediate(resolve))
    do {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#write(batch.map(({ line }) => line).join(''))
        for (const each of batch) this.#open.set(each.intent.serial, each)
        for (const { resolve } of batch) resolve()
      } catch (error) {
        const failure = failureOf(error)
        for (const { reject } of batch) reject(failure)
      }
    } while (this.#waiting.length > 0)
    this.#work = undefined
  }

  async #write(lines: string): Promise<void> {
    try {
      const segment = await this.#segmentWithRoom()
      segment.write(this.#outcomes + lines)
      this.#outcomes = ''
      await segment.sync()
      this.#failure = undefined
    } catch (error) {
      // After a failed write or sync the file is not written again: the next intents start a new one.
      this.#failure = failureOf(error)
      throw error
    }
  }

  async #segmentWithRoom(): Promise<SignedSegment> {
    const segment = this.#segment
    if (segment === undefined || this.#failure !== undefined) return this.#replace(segment)
    if (segment.size < this.#limit) return segment
    if (this.#open.size > 0) return this.#replace(segment)
    this.#empty(segment)
    return segment
  }

  /** Starts a new file with the open intents, and removes `old` when they are durable. */
  async #replace(old: SignedSegment | undefined): Promise<SignedSegment> {
    const { folder } = this
    this.#makeFolder(folder)
    this.#key ??= new ProcessKey()
    const segment = await SignedSegment.create(this.#port, folder, this.#key, this.#log)
    try {
      segment.write([...this.#open.values()].map(({ line }) => line).join(''))
      await segment.sync()
      await syncPath(this.#port, folder)
    } catch (error) {
      segment.remove()
      throw error
    }
    this.#limit = Math.max(this.#segmentBytes, 2 * segment.size)
    this.#sizes.clear()
    this.#segment = segment
    this.#outcomes = ''
    old?.remove()
    return segment
  }

  #makeFolder(folder: string): void {
    const made = this.#port.mkdirSync(folder, { recursive: true, mode: DIRECTORY_MODE })
    if (made === undefined) return
    requireLocal(this.#port, folder)
    syncDirectorySync(this.#port, this.#dir)
  }

  #flushOutcomes(): void {
    this.#outcomeTimer = undefined
    const segment = this.#segment
    // A write in progress includes the outcomes.
    if (segment === undefined || this.#work !== undefined || this.#failure !== undefined) return
    try {
      if (this.#open.size === 0) this.#empty(segment)
      else segment.write(this.#outcomes)
      this.#outcomes = ''
    } catch (error) {
      this.#failure = failureOf(error)
    }
  }

  #empty(segment: SignedSegment): void {
    segment.empty()
    this.#outcomes = ''
    this.#limit = this.#segmentBytes
    this.#sizes.clear()
  }

  /** An offset in its day's log before which the record of a call that starts now cannot be. */
  #sizeOfLog(ts: string): number {
    const day = utcDayOf(ts) ?? ''
    const known = this.#sizes.get(day)
    if (known !== undefined) return known
    const size = Math.max(0, (sizeOf(this.#port, join(this.#dir, dailyLog(day))) ?? 0) - SIZE_MARGIN)
    this.#sizes.set(day, size)
    return size
  }
}

function failureOf(error: unknown): AuditError {
  if (error instanceof AuditError) return error
  return new AuditError('intent_failed', `the intent journal cannot be written: ${messageOf(error)}`, error)
}
