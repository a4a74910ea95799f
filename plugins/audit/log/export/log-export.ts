// The export of a log to one receiver. A round sends what is new, day by day, and keeps the position of each day in a
// signed file: it moves only after the receiver has the records, so that each record is sent at least once.

import { closeSync, fdatasyncSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { namesIn, nodeFileSystem, sizeOf } from '../files/file-system.js'
import { isEnvelope, type SignedEnvelope } from '../format/envelope.js'
import { systemCode } from '../format/errors.js'
import { dayOfDailyLog } from '../format/paths.js'
import { objectIn } from '../format/stored-record.js'
import { UploadError } from '../upload/error.js'
import { isLineStart, wholeLines } from '../upload/range-reader.js'
import { UploadState } from '../upload/state-file.js'
import type { UploadThrottle } from '../upload/throttle.js'
import type { ReceiverConfig } from './config.js'
import { ExportError } from './error.js'
import type { ExportHost, RoundEnd } from './host.js'
import { exported, openReceiver, type Receiver } from './receiver.js'

/** Bytes of the log that are sent together, unless one record is larger. */
const MAX_BATCH_BYTES = 524_288
const SAVE_INTERVAL_MS = 1_000

interface LogExportParts {
  readonly dir: string
  readonly config: ReceiverConfig
  readonly host: ExportHost
  readonly throttle: UploadThrottle
  readonly signal: AbortSignal
  /** For tests. */
  readonly receiver?: Receiver
}

/** A daily log with bytes that wait. */
interface WaitingFile {
  readonly name: string
  readonly size: number
}

export class LogExport {
  readonly #parts: LogExportParts
  #receiver: Receiver | undefined
  #state: UploadState | undefined
  #now = 0
  #savedAt = 0
  #batchBytes = MAX_BATCH_BYTES
  /** Records taken since the last report. */
  #sent = 0
  #pendingBytes = 0
  /** Files whose position was compared with their content. */
  readonly #checked = new Set<string>()

  constructor(parts: LogExportParts) {
    this.#parts = parts
    this.#receiver = parts.receiver
  }

  /** Sends all that waits. Never rejects. */
  async round(now: number): Promise<RoundEnd> {
    this.#now = now
    try {
      return { isStandby: !(await this.#round()) }
    } catch (error) {
      return { isStandby: false, error: describe(error) }
    }
  }

  /** False if another process exports this log. */
  async #round(): Promise<boolean> {
    const { dir, host, signal } = this.#parts
    const names = this.#names()
    // Asked even if nothing waits: it shows whether this process is the one that exports.
    const state = this.#state
    const grown = names.filter((name) => sizeOf(nodeFileSystem, join(dir, name)) !== state?.offsetOf(name))
    const sizes = await host.sizes(grown)
    if (sizes === undefined) {
      // The other process moves the positions.
      this.#state = undefined
      return false
    }
    const positions = state ?? (await this.#load())
    const waiting = grown
      .map((name, index) => ({ name, size: sizes[index] ?? 0 }))
      .filter(({ name, size }) => size !== positions.offsetOf(name))
    await this.#stateGaps(positions, names)
    for (const file of waiting) this.#expect(positions, file)
    this.#pendingBytes = waiting.reduce((sum, { name, size }) => sum + size - positions.offsetOf(name), 0)
    try {
      await this.#save(positions)
      for (const file of waiting) {
        signal.throwIfAborted()
        await this.#sendFile(positions, file)
      }
    } finally {
      await this.#save(positions)
    }
    this.#report(undefined)
    return true
  }

  /** The daily logs that are exported, oldest first. */
  #names(): string[] {
    const { dir, config } = this.#parts
    const { since = '' } = config
    return namesIn(nodeFileSystem, dir)
      .filter((name) => (dayOfDailyLog(name) ?? '') >= (since || '0'))
      .sort()
  }

  async #load(): Promise<UploadState> {
    const { dir, config, host } = this.#parts
    const file = `.svc-export-${config.name}.json`
    const state = await UploadState.load({ dir, file, key: host, now: () => this.#now })
    if (state.loss === 'damaged' || state.loss === 'untrusted') {
      host.warned(`the positions of the export to ${config.name} are ${state.loss}: it begins anew`)
    }
    this.#state = state
    return state
  }

  /** Keeps the size of a file, so that its removal shows how much was not exported. */
  #expect(positions: UploadState, { name, size }: WaitingFile): void {
    const { dir, config, host } = this.#parts
    const offset = positions.offsetOf(name)
    if (!this.#checked.has(name) && offset > 0) {
      if (size < offset || !startsLine(join(dir, name), offset)) {
        host.warned(`${name} is not what was exported to ${config.name}: the day is exported again`)
        positions.finish(name, 0)
      }
    }
    this.#checked.add(name)
    if (positions.pendingOf(name) !== size && size > positions.offsetOf(name)) positions.begin(name, size)
  }

  /** States what was removed before it was exported, then forgets the files that are gone. */
  async #stateGaps(positions: UploadState, names: readonly string[]): Promise<void> {
    const existing = new Set(names)
    for (const name of positions.paths()) {
      const day = dayOfDailyLog(name)
      if (existing.has(name) || day === undefined) continue
      const bytes = (positions.pendingOf(name) ?? 0) - positions.offsetOf(name)
      const { since = '' } = this.#parts.config
      if (bytes > 0 && day >= since) await this.#gap(day, bytes, 'removed')
      positions.forget(name)
    }
  }

  async #sendFile(positions: UploadState, { name, size }: WaitingFile): Promise<void> {
    const { dir, throttle, signal } = this.#parts
    let file: number
    try {
      file = openSync(join(dir, name), 'r')
    } catch (error) {
      // Retention has removed it; the next round states the gap.
      if (systemCode(error) === 'ENOENT') return
      throw error
    }
    try {
      // A receiver must not have what a power failure takes from the log.
      fdatasyncSync(file)
      for (let start = positions.offsetOf(name); start < size; start = positions.offsetOf(name)) {
        signal.throwIfAborted()
        const range = await wholeLines(file, { start, size, limit: this.#batchBytes }, throttle)
        // An incomplete last line: its writer died, and the next one moves it away.
        if (range === undefined) return
        const bytes = Buffer.allocUnsafe(range.end - start)
        if (readSync(file, bytes, 0, bytes.length, start) !== bytes.length) return
        await this.#sendLines(dayOfDailyLog(name) ?? '', bytes)
        positions.finish(name, range.end)
        if (range.end < size) positions.begin(name, size)
        this.#pendingBytes -= bytes.length
        if (performance.now() - this.#savedAt >= SAVE_INTERVAL_MS) await this.#save(positions)
      }
    } finally {
      closeSync(file)
    }
  }

  async #sendLines(day: string, bytes: Buffer): Promise<void> {
    const { config, signal } = this.#parts
    const { records, damagedBytes } = recordsIn(bytes)
    const oldest = Date.parse(records[0]?.ts ?? '')
    this.#report(Number.isNaN(oldest) ? this.#now : oldest)
    if (records.length > 0) {
      this.#receiver ??= await openReceiver(config, () => this.#parts.host.secrets(config.name))
      try {
        await this.#receiver.send(
          records.map((record) => exported(record, config.format)),
          signal,
        )
      } catch (error) {
        if (error instanceof ExportError && error.isTooMuch)
          this.#batchBytes = Math.ceil(this.#batchBytes / 2)
        throw error
      }
      this.#batchBytes = Math.min(MAX_BATCH_BYTES, this.#batchBytes * 2)
      this.#sent += records.length
    }
    if (damagedBytes > 0) await this.#gap(day, damagedBytes, 'damaged')
  }

  async #gap(day: string, bytes: number, reason: 'removed' | 'damaged'): Promise<void> {
    await this.#parts.host.gap({ receiver: this.#parts.config.name, day, bytes, reason })
  }

  #report(oldest: number | undefined): void {
    const sent = this.#sent
    this.#sent = 0
    const pendingBytes = oldest === undefined ? 0 : this.#pendingBytes
    this.#parts.host.progress(this.#parts.config.name, { pendingBytes, oldest, sent })
  }

  async #save(positions: UploadState): Promise<void> {
    await positions.save()
    this.#savedAt = performance.now()
  }
}

function recordsIn(bytes: Buffer): { records: SignedEnvelope[]; damagedBytes: number } {
  const records: SignedEnvelope[] = []
  let damagedBytes = 0
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(0x0a, start)
    const record = objectIn(bytes.subarray(start, end))
    if (record !== undefined && isEnvelope(record)) records.push(record)
    else damagedBytes += end + 1 - start
    start = end + 1
  }
  return { records, damagedBytes }
}

function startsLine(path: string, offset: number): boolean {
  const file = openSync(path, 'r')
  try {
    return isLineStart(file, offset)
  } finally {
    closeSync(file)
  }
}

function describe(error: unknown): RoundEnd['error'] {
  if (error instanceof ExportError) {
    const { code, message, retryAfterMs } = error
    return { code, message, retryAfterMs }
  }
  const isRefused = error instanceof UploadError && error.retry !== 'soon'
  const code = isRefused ? 'export_refused' : 'export_failed'
  return { code, message: messageOf(error), retryAfterMs: undefined }
}
