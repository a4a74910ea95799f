// Schedules the upload of appended bytes and keeps the counters. A thread of its own reads, hashes and sends, so
// no append waits for it; failures are reported, not thrown.

import { once } from 'node:events'
import type { Clock, Meter, Signer } from '@svc/core'
import { dayOfInstant } from '../format/day.js'
import { Backoff } from './backoff.js'
import { UploadError } from './error.js'
import { fileSizes, type UploadedLog } from './file-sizes.js'
import {
  DEFAULT_INTERVAL_MS,
  DEFAULT_MAX_DELAY_MS,
  DEFAULT_TIMEOUT_MS,
  type PresignConfig,
  plainPresign,
} from './presign.js'
import { hasSignedState, signState } from './state-signature.js'
import type { SizeRequest, SizeResponse } from './thread-messages.js'
import { AppendCounter } from './throttle.js'
import { UploadLock } from './upload-lock.js'
import { UploadMetrics, type UploadStatus } from './upload-status.js'
import { UploadThread } from './upload-thread.js'

const FULL_SCAN_INTERVAL_MS = 3_600_000
const MS_PER_DAY = 86_400_000
const FAILURE_DELAYS = { min: 500, max: 60_000 }
/** The longest delay after refusals, as a multiple of the first. */
const MAX_REFUSAL_FACTOR = 10

interface UploadLimits {
  /** New bytes that start a round before the interval is over. */
  readonly triggerBytes: number
  readonly rangeBytes: number
  /** Time without progress after which a PUT is aborted, milliseconds. */
  readonly idleMs: number
  /** The first delay after a refusal (401, 403, another 4xx), milliseconds. */
  readonly refusalMs: number
}

export interface UploaderParts {
  readonly dir: string
  readonly config: PresignConfig
  readonly retentionDays: number
  readonly limits: UploadLimits
  readonly clock: Clock
  readonly meter: Meter
  readonly random: () => number
  readonly onAsyncError: (error: Error) => void
  readonly log: UploadedLog
  readonly signer: Signer
}

export class Uploader {
  readonly #parts: UploaderParts
  readonly #thread: UploadThread
  readonly #lock: UploadLock
  readonly #backoff: Backoff
  readonly #refusalBackoff: Backoff
  readonly #metrics: UploadMetrics
  readonly #appends = new AppendCounter()
  readonly #closing = new AbortController()
  /** Files skipped after a refusal or a final failure. */
  readonly #skipped = new Map<string, UploadError>()
  /** Days whose agents' files have grown since the last full scan. */
  #days = new Set<string>()
  #newestDay = ''
  #newBytes = 0
  /** The refusal or the final failure that keeps every file from being uploaded. */
  #obstacle: UploadError | undefined
  #hasFailed = false
  #wasRefused = false
  #retryAfterMs: number | undefined
  #notBefore = 0
  #lastFullScan: number | undefined
  #running: Promise<void> | undefined
  #isDueAgain = false
  #interval: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined
  #refusalRetry: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined

  constructor(parts: UploaderParts) {
    this.#parts = parts
    const { dir, config, retentionDays, limits, clock, meter, random, log, signer } = parts
    this.#lock = new UploadLock(dir)
    this.#backoff = new Backoff(random, FAILURE_DELAYS)
    const { refusalMs, rangeBytes, idleMs } = limits
    this.#refusalBackoff = new Backoff(random, { min: refusalMs, max: refusalMs * MAX_REFUSAL_FACTOR })
    this.#metrics = new UploadMetrics(meter, clock, config.maxDelayMs ?? DEFAULT_MAX_DELAY_MS)
    const { shared: appends } = this.#appends
    this.#thread = new UploadThread(
      { dir, config: plainPresign(config), retentionDays, rangeBytes, idleMs, appends },
      {
        sizes: (files) => this.#sizes(files),
        retain: (uploaded) => log.retainUploaded((path) => uploaded.get(path) ?? 0),
        sign: async (state) => signState(signer, (await log.open()).logId, state),
        isSigned: async (state) => hasSignedState(await log.trustedKeys(), (await log.open()).logId, state),
        pending: (bytes, since) => this.#metrics.found(bytes, since),
        uploaded: (bytes) => this.#metrics.uploaded(bytes),
        failed: (error, path) => this.#failed(error, path),
        warned: (error) => this.#report(error),
      },
    )
  }

  /** Starts uploading, now and at every interval. Call after the directory is open. */
  start(): void {
    if (this.#closed !== undefined) return
    const { intervalMs = DEFAULT_INTERVAL_MS } = this.#parts.config
    this.#interval ??= setInterval(() => {
      this.#metrics.setGauges()
      this.#wake()
    }, intervalMs).unref()
    this.#wake()
  }

  /** Reports durable bytes of `day`. Cheap enough for every batch. */
  bytesAppended(bytes: number, day: string): void {
    this.#appends.increment()
    this.#days.add(day)
    this.#metrics.appended(bytes)
    this.#newBytes += bytes
    const hasRotated = day > this.#newestDay && this.#newestDay !== ''
    if (day > this.#newestDay) this.#newestDay = day
    if (hasRotated || this.#newBytes >= this.#parts.limits.triggerBytes) this.#wake()
  }

  /**
   * Tries once to upload everything, including refused files and keys. Resolves when the attempt has ended, also
   * after a failure; another process may be the one that uploads.
   */
  async flush(): Promise<void> {
    while (this.#running !== undefined) await this.#running
    this.#obstacle = undefined
    this.#skipped.clear()
    await this.#begin(true)
  }

  /** Makes a last attempt of at most `timeoutMs`; the next opening uploads the rest. Safe to call twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  status(): UploadStatus {
    return this.#metrics.status(this.#obstacle ?? [...this.#skipped.values()][0])
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
      if (this.#interval === undefined || this.#obstacle?.retry === 'never') return
      this.#forgetRefusals()
      const { agentLogs } = await this.#parts.log.open()
      await Promise.race([agentLogs.idle(), once(this.#closing.signal, 'abort')])
      if (!this.#closing.signal.aborted) await this.#begin(true)
    } finally {
      clearTimeout(limit)
      clearTimeout(this.#retry)
      clearTimeout(this.#refusalRetry)
      await this.#thread.close()
      this.#lock.release()
    }
  }

  #wake(): void {
    if (this.#closed !== undefined || this.#obstacle !== undefined) return
    if (this.#running !== undefined) this.#isDueAgain = this.#newBytes > 0
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
    this.#newBytes = 0
    this.#retryAfterMs = undefined
    this.#hasFailed = false
    this.#wasRefused = false
    try {
      if (this.#lock.acquire()) await this.#upload(isFull)
      else this.#metrics.standBy()
    } catch (error) {
      const isUploadError = error instanceof UploadError
      const message = `uploading failed: ${String(error)}`
      this.#failed(isUploadError ? error : new UploadError('upload_failed', message, { cause: error }))
    }
    if (this.#hasFailed) this.#retryLater()
    else this.#backoff.reset()
    if (this.#wasRefused) this.#retryRefusedLater()
    else if (this.#skipped.size === 0) this.#refusalBackoff.reset()
  }

  async #upload(isRequested: boolean): Promise<void> {
    const isFull = isRequested || this.#isFullScanDue()
    const days = this.#daysToLookAt()
    const skipped = [...this.#skipped.keys()]
    // A file that grows from now on may have been scanned already.
    if (isFull) this.#days = new Set()
    this.#metrics.roundBegins()
    const { isNew: isNewLog } = await this.#parts.log.open()
    await this.#thread.round({ isFull, days, skipped, isNewLog, now: this.#parts.clock.now() })
    // After a failure, agents' files of any day may be incomplete.
    const isWhole = !this.#hasFailed && this.#obstacle === undefined && this.#skipped.size === 0
    if (isFull) this.#lastFullScan = this.#hasFailed ? undefined : this.#parts.clock.monotonic()
    if (isWhole) this.#metrics.roundSucceeded()
    else if (this.#metrics.state === 'uploading') this.#metrics.state = this.#isRefused ? 'retrying' : 'idle'
  }

  async #sizes(files: readonly SizeRequest[]): Promise<SizeResponse> {
    const { log, dir, clock } = this.#parts
    return { sizes: await fileSizes(log, dir, files), now: clock.now() }
  }

  #isFullScanDue(): boolean {
    const now = this.#parts.clock.monotonic()
    return this.#lastFullScan === undefined || now - this.#lastFullScan >= FULL_SCAN_INTERVAL_MS
  }

  #daysToLookAt(): string[] {
    const now = this.#parts.clock.now()
    const recent = [now, now - MS_PER_DAY].map(dayOfInstant).filter((day) => day !== undefined)
    return [...new Set([...this.#days, ...recent])]
  }

  #report(error: UploadError): void {
    this.#metrics.failed(error)
    this.#parts.onAsyncError(error)
  }

  #failed(error: UploadError, path?: string): void {
    this.#report(error)
    if (error.retry === 'soon') {
      this.#hasFailed = true
      this.#retryAfterMs = Math.max(this.#retryAfterMs ?? 0, error.retryAfterMs ?? 0)
      return
    }
    if (error.retry === 'slowly') this.#wasRefused = true
    if (error.scope === 'file' && path !== undefined) {
      this.#skipped.set(path, error)
    } else {
      this.#obstacle = error
      this.#metrics.state = error.retry === 'slowly' ? 'retrying' : 'stopped'
    }
  }

  get #isRefused(): boolean {
    return [...this.#skipped.values()].some(({ retry }) => retry === 'slowly')
  }

  /** The next round tries again what was refused. */
  #forgetRefusals(): void {
    if (this.#obstacle?.retry === 'slowly') this.#obstacle = undefined
    for (const [path, { retry }] of this.#skipped) if (retry === 'slowly') this.#skipped.delete(path)
    // The refused files may be agents' files of any day.
    this.#lastFullScan = undefined
  }

  /** A key may be accepted again, and a permission given back. */
  #retryRefusedLater(): void {
    clearTimeout(this.#refusalRetry)
    this.#metrics.state = 'retrying'
    if (this.#closed !== undefined) return
    this.#refusalRetry = setTimeout(() => {
      this.#forgetRefusals()
      this.#notBefore = 0
      this.#wake()
    }, this.#refusalBackoff.next()).unref()
  }

  #retryLater(): void {
    const delay = this.#backoff.next(this.#retryAfterMs)
    this.#notBefore = this.#parts.clock.monotonic() + delay
    this.#metrics.state = 'retrying'
    if (this.#closed !== undefined) return
    this.#retry = setTimeout(() => {
      this.#notBefore = 0
      this.#wake()
    }, delay).unref()
  }
}
