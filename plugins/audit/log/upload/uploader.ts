// Decides when the bytes appended since the last time are sent to the control plane's store, and keeps the
// figures. A thread of its own reads, hashes and sends what is on disk, so that no append waits for it; failures
// are told, not thrown.

import { once } from 'node:events'
import type { Clock, Meter } from '@svc/core'
import { dayOfInstant } from '../format/day.js'
import { Backoff } from './backoff.js'
import { UploadError } from './error.js'
import { sizesIn, type UploadedLog } from './log-sizes.js'
import { DEFAULT_INTERVAL_MS, DEFAULT_TIMEOUT_MS, type PresignConfig, plainPresign } from './presign.js'
import type { SizeAnswer, SizeQuestion } from './thread-messages.js'
import { AppendCounter } from './throttle.js'
import { UploadLock } from './upload-lock.js'
import { UploadFigures, type UploadStatus } from './upload-status.js'
import { UploadThread } from './upload-thread.js'

const FULL_SCAN_EVERY_MS = 3_600_000
const MS_PER_DAY = 86_400_000

interface UploadLimits {
  /** New bytes that start a round before its time. */
  readonly triggerBytes: number
  readonly rangeBytes: number
  /** How long a PUT may stand still, milliseconds. */
  readonly idleMs: number
}

export interface UploaderParts {
  readonly dir: string
  readonly config: PresignConfig
  readonly limits: UploadLimits
  readonly clock: Clock
  readonly meter: Meter
  readonly random: () => number
  readonly onAsyncError: (error: Error) => void
  readonly log: UploadedLog
}

export class Uploader {
  readonly #parts: UploaderParts
  readonly #thread: UploadThread
  readonly #lock: UploadLock
  readonly #backoff: Backoff
  readonly #figures: UploadFigures
  readonly #appends = new AppendCounter()
  readonly #closing = new AbortController()
  /** Files left alone since a failure that repeating does not mend. */
  readonly #stopped = new Map<string, UploadError>()
  /** Days whose agents' files have grown since all were looked at. */
  #days = new Set<string>()
  #newestDay = ''
  #freshBytes = 0
  #halted: UploadError | undefined
  #hasFailed = false
  #retryAfterMs: number | undefined
  #notBefore = 0
  #lastFullScan: number | undefined
  #running: Promise<void> | undefined
  #isDueAgain = false
  #interval: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined

  constructor(parts: UploaderParts) {
    this.#parts = parts
    const { dir, config, limits, clock, meter, random, log } = parts
    this.#lock = new UploadLock(dir)
    this.#backoff = new Backoff(random)
    this.#figures = new UploadFigures(meter)
    const { rangeBytes, idleMs } = limits
    const { shared: appends } = this.#appends
    this.#thread = new UploadThread(
      { dir, config: plainPresign(config), rangeBytes, idleMs, appends },
      {
        sizes: (files) => this.#sizes(files),
        retain: (uploaded) => log.retainUploaded((path) => uploaded.get(path) ?? 0),
        pending: (bytes) => {
          this.#figures.pendingBytes = bytes
        },
        uploaded: (bytes) => this.#figures.uploaded(bytes, clock.now()),
        failed: (error, path) => this.#failed(error, path),
        mended: (error) => this.#report(error),
      },
    )
  }

  /** Begins to upload, now and at every interval. Call once the directory is open. */
  start(): void {
    if (this.#closed !== undefined) return
    const { intervalMs = DEFAULT_INTERVAL_MS } = this.#parts.config
    this.#interval ??= setInterval(() => this.#wake(), intervalMs).unref()
    this.#wake()
  }

  /** Bytes of a file of `day` have become durable. Cheap enough for every batch. */
  grew(bytes: number, day: string): void {
    this.#appends.grew()
    this.#days.add(day)
    this.#figures.pendingBytes += bytes
    this.#freshBytes += bytes
    const hasRotated = day > this.#newestDay && this.#newestDay !== ''
    if (day > this.#newestDay) this.#newestDay = day
    if (hasRotated || this.#freshBytes >= this.#parts.limits.triggerBytes) this.#wake()
  }

  /**
   * Tries once to upload everything, files and keys that were refused included. Resolves when that attempt
   * is over, whatever came of it; another process may be the one that uploads.
   */
  async flush(): Promise<void> {
    while (this.#running !== undefined) await this.#running
    this.#halted = undefined
    this.#stopped.clear()
    await this.#begin(true)
  }

  /** A last attempt, cut short after `timeoutMs`; what is left is the next opening's. Safe twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  status(): UploadStatus {
    return this.#figures.status(this.#halted ?? [...this.#stopped.values()][0])
  }

  async #close(): Promise<void> {
    clearInterval(this.#interval)
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.#parts.config
    const limit = setTimeout(() => {
      this.#closing.abort()
      this.#thread.abort(new UploadError('upload_failed', 'the log was closed before all was uploaded'))
    }, timeoutMs)
    try {
      while (this.#running !== undefined) await this.#running
      if (this.#interval === undefined || this.#halted !== undefined) return
      const { derived } = await this.#parts.log.open()
      await Promise.race([derived.settled(), once(this.#closing.signal, 'abort')])
      if (!this.#closing.signal.aborted) await this.#begin(true)
    } finally {
      clearTimeout(limit)
      clearTimeout(this.#retry)
      await this.#thread.close()
      this.#lock.release()
    }
  }

  #wake(): void {
    if (this.#closed !== undefined || this.#halted !== undefined) return
    if (this.#running !== undefined) this.#isDueAgain = this.#freshBytes > 0
    else if (this.#parts.clock.monotonic() >= this.#notBefore) void this.#begin(false)
  }

  #begin(isFull: boolean): Promise<void> {
    this.#running = this.#round(isFull).finally(() => {
      this.#running = undefined
      const isDue = this.#isDueAgain
      this.#isDueAgain = false
      if (isDue) this.#wake()
    })
    return this.#running
  }

  /** Never rejects. */
  async #round(isFull: boolean): Promise<void> {
    clearTimeout(this.#retry)
    this.#freshBytes = 0
    this.#retryAfterMs = undefined
    this.#hasFailed = false
    try {
      if (this.#halted === undefined && this.#lock.acquire()) await this.#upload(isFull)
      else this.#figures.state = this.#halted === undefined ? 'standby' : 'stopped'
    } catch (error) {
      const isOurs = error instanceof UploadError
      const message = `uploading failed: ${String(error)}`
      this.#failed(isOurs ? error : new UploadError('upload_failed', message, { cause: error }))
    }
    if (this.#hasFailed) this.#retryLater()
    else this.#backoff.reset()
  }

  async #upload(isAsked: boolean): Promise<void> {
    const isFull = isAsked || this.#isFullScanDue()
    const days = this.#daysToLookAt()
    const stopped = [...this.#stopped.keys()]
    // Those that grow from now on may have been looked at already.
    if (isFull) this.#days = new Set()
    this.#figures.state = 'uploading'
    await this.#thread.round({ isFull, days, stopped, now: this.#parts.clock.now() })
    // After a failure there may be agents' files left of any day.
    if (isFull) this.#lastFullScan = this.#hasFailed ? undefined : this.#parts.clock.monotonic()
    if (this.#figures.state === 'uploading') this.#figures.state = 'idle'
  }

  async #sizes(files: readonly SizeQuestion[]): Promise<SizeAnswer> {
    const { log, dir, clock } = this.#parts
    return { sizes: await sizesIn(log, dir, files), now: clock.now() }
  }

  #isFullScanDue(): boolean {
    const now = this.#parts.clock.monotonic()
    return this.#lastFullScan === undefined || now - this.#lastFullScan >= FULL_SCAN_EVERY_MS
  }

  #daysToLookAt(): string[] {
    const now = this.#parts.clock.now()
    const recent = [now, now - MS_PER_DAY].map(dayOfInstant).filter((day) => day !== undefined)
    return [...new Set([...this.#days, ...recent])]
  }

  #report(error: UploadError): void {
    this.#figures.failed(error)
    this.#parts.onAsyncError(error)
  }

  #failed(error: UploadError, path?: string): void {
    this.#report(error)
    if (error.isRetriable) {
      this.#hasFailed = true
      this.#retryAfterMs = Math.max(this.#retryAfterMs ?? 0, error.retryAfterMs ?? 0)
    } else if (error.reach === 'file' && path !== undefined) {
      this.#stopped.set(path, error)
    } else {
      this.#halted = error
      this.#figures.state = 'stopped'
    }
  }

  #retryLater(): void {
    const delay = this.#backoff.next(this.#retryAfterMs)
    this.#notBefore = this.#parts.clock.monotonic() + delay
    this.#figures.state = 'retrying'
    if (this.#closed !== undefined) return
    this.#retry = setTimeout(() => {
      this.#notBefore = 0
      this.#wake()
    }, delay).unref()
  }
}
