// The write-ahead journal of one process: what is about to be sent, on disk before it is sent (decisions.md §4).
// Outcomes are noted without a sync of their own: should one get lost, its call's record is found in the log.

import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { DIRECTORY_MODE, type FileSystem, READ, syncDirectorySync } from '../log/files/file-system.js'
import { requireLocal } from '../log/files/local-file-system.js'
import { utcDayOf } from '../log/format/day.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { AuditError, systemCode } from '../log/format/errors.js'
import { dailyLog, INTENTS_FOLDER } from '../log/format/paths.js'
import { FIRST_LINE, type Intent, intentLine, outcomeLine } from './entry.js'
import { Segment, syncNames } from './segment.js'

/** From this size on a journal is emptied, or its open intents are carried over into a new one. */
const SEGMENT_BYTES = 4_194_304
/** A sibling may be writing, and cut back, about a batch at the end of a log while its size is read. */
const SIZE_MARGIN = 16_777_216
/** Outcomes that no intent follows are noted after this time. */
const TIDY_MS = 200

interface Waiting {
  readonly intent: Intent
  readonly line: string
  readonly resolve: () => void
  readonly reject: (error: AuditError) => void
}

export class IntentJournal {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #segmentBytes: number
  readonly #open = new Map<number, Waiting>()
  #waiting: Waiting[] = []
  #outcomes = ''
  #serial = 0
  #segment: Segment | undefined
  /** Where the segment is next emptied or replaced. */
  #limit: number
  #sizes = new Map<string, number>()
  #work: Promise<void> | undefined
  #tidy: NodeJS.Timeout | undefined
  #failure: AuditError | undefined
  #closed = false

  /** `dir` is that of the log; nothing is opened before the first intent. */
  constructor(dir: string, port: FileSystem, segmentBytes: number = SEGMENT_BYTES) {
    this.#dir = dir
    this.#port = port
    this.#segmentBytes = segmentBytes
    this.#limit = segmentBytes
  }

  get folder(): string {
    return join(this.#dir, INTENTS_FOLDER)
  }

  /** Why the last intent could not be written, until one can. */
  get failure(): AuditError | undefined {
    return this.#failure
  }

  /**
   * Resolves with the intent once it is on disk. `record` stands for the call if its outcome never becomes known.
   *
   * @throws {AuditError} `intent_failed` or `closed`: the call must not count on it.
   */
  begin(record: AuditEnvelope): Promise<Intent> {
    if (this.#closed) return Promise.reject(new AuditError('closed', 'the intent journal is closed'))
    return new Promise((resolve, reject) => {
      const intent = { serial: ++this.#serial, from: this.#sizeOfLog(record.ts), record }
      this.#waiting.push({ intent, line: intentLine(intent), resolve: () => resolve(intent), reject })
      this.#work ??= this.#run()
    })
  }

  /** The call's own record is on disk. */
  end({ serial }: Intent): void {
    if (!this.#open.delete(serial)) return
    this.#outcomes += outcomeLine(serial)
    this.#tidy ??= setTimeout(() => this.#tidyUp(), TIDY_MS).unref()
  }

  /** Tries whether intents can be written again. */
  async probe(): Promise<void> {
    if (this.#failure === undefined || this.#closed) return
    this.#work ??= this.#run()
    await this.#work
  }

  /** Intents still open stay in the file, for whoever opens the directory next. Safe twice. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#tidy)
    await this.#work
    const segment = this.#segment
    if (segment === undefined) return
    this.#segment = undefined
    if (this.#open.size === 0) segment.remove()
    else segment.close()
  }

  async #run(): Promise<void> {
    // What comes in during this turn of the event loop shares a sync.
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
      // A file whose write or sync has failed is not written again: the next intents begin a new one.
      this.#failure = failureOf(error)
      throw error
    }
  }

  async #segmentWithRoom(): Promise<Segment> {
    const segment = this.#segment
    if (segment === undefined || this.#failure !== undefined) return this.#replace(segment)
    if (segment.size < this.#limit) return segment
    if (this.#open.size > 0) return this.#replace(segment)
    this.#empty(segment)
    return segment
  }

  /** Begins a new file with the open intents, and removes `old` once they are safe there. */
  async #replace(old: Segment | undefined): Promise<Segment> {
    const { folder } = this
    this.#makeFolder(folder)
    const segment = Segment.create(this.#port, folder)
    try {
      segment.write(FIRST_LINE + [...this.#open.values()].map(({ line }) => line).join(''))
      await segment.sync()
      await syncNames(this.#port, folder)
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

  #tidyUp(): void {
    this.#tidy = undefined
    const segment = this.#segment
    // Whatever is being written takes the outcomes along.
    if (segment === undefined || this.#work !== undefined || this.#failure !== undefined) return
    try {
      if (this.#open.size === 0) this.#empty(segment)
      else segment.write(this.#outcomes)
      this.#outcomes = ''
    } catch (error) {
      this.#failure = failureOf(error)
    }
  }

  #empty(segment: Segment): void {
    segment.empty()
    this.#outcomes = ''
    this.#limit = this.#segmentBytes
    this.#sizes.clear()
  }

  /** An offset before which no record of a call that begins now can stand, in the log of its day. */
  #sizeOfLog(ts: string): number {
    const day = utcDayOf(ts) ?? ''
    const known = this.#sizes.get(day)
    if (known !== undefined) return known
    const size = Math.max(0, sizeOf(this.#port, join(this.#dir, dailyLog(day))) - SIZE_MARGIN)
    this.#sizes.set(day, size)
    return size
  }
}

function sizeOf(port: FileSystem, path: string): number {
  let fd: number
  try {
    fd = port.openSync(path, READ)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return 0
    throw error
  }
  try {
    return port.fstatSync(fd).size
  } finally {
    port.closeSync(fd)
  }
}

function failureOf(error: unknown): AuditError {
  if (error instanceof AuditError) return error
  return new AuditError('intent_failed', `the intent journal cannot be written: ${messageOf(error)}`, error)
}
