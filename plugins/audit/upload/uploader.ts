// Sends the bytes appended since the last time to the control plane's store, in the background. It never
// makes an append wait: it reads what is on disk, by itself, and failures are told, not thrown.

import { once } from 'node:events'
import type { Clock, Meter } from '@svc/core'
import { dayOfInstant } from '../appender/day.js'
import { Backoff } from './backoff.js'
import { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { sizesIn, type UploadedLog } from './log-sizes.js'
import { Pace } from './pace.js'
import { DEFAULT_INTERVAL_MS, DEFAULT_TIMEOUT_MS, type PresignConfig } from './presign.js'
import { uploadRound } from './round.js'
import { type FoundFile, scan } from './scan.js'
import type { Source } from './source.js'
import { UploadState } from './state-file.js'
import { UploadLock } from './upload-lock.js'
import { UploadFigures, type UploadStatus } from './upload-status.js'

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
  readonly #controlPlane: ControlPlane
  readonly #lock: UploadLock
  readonly #backoff: Backoff
  readonly #figures: UploadFigures
  readonly #pace: Pace
  readonly #closing = new AbortController()
  /** Files left alone since a failure that repeating does not mend. */
  readonly #stopped = new Map<string, UploadError>()
  /** Days whose agents' files have grown since all were looked at. */
  #days = new Set<string>()
  #newestDay = ''
  #freshBytes = 0
  #state: UploadState | undefined
  #halted: UploadError | undefined
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
    this.#controlPlane = new ControlPlane(parts.config, parts.limits.idleMs)
    this.#lock = new UploadLock(parts.dir)
    this.#backoff = new Backoff(parts.random)
    this.#figures = new UploadFigures(parts.meter)
    this.#pace = new Pace(() => parts.clock.monotonic())
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
    this.#pace.grew()
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
    const limit = setTimeout(
      () =>
        this.#closing.abort(new UploadError('upload_failed', 'the log was closed before all was uploaded')),
      timeoutMs,
    )
    try {
      while (this.#running !== undefined) await this.#running
      if (this.#interval === undefined || this.#halted !== undefined) return
      const { derived } = await this.#parts.log.open()
      await Promise.race([derived.settled(), once(this.#closing.signal, 'abort')])
      if (!this.#closing.signal.aborted) await this.#begin(true)
    } finally {
      clearTimeout(limit)
      clearTimeout(this.#retry)
      this.#controlPlane.close()
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
    let hasFailed = false
    const fail = (error: UploadError, source?: Source) => {
      hasFailed ||= error.isRetriable
      this.#failed(error, source)
    }
    try {
      if (this.#halted === undefined && this.#lock.acquire()) await this.#upload(isFull, fail)
      else this.#figures.state = this.#halted === undefined ? 'standby' : 'stopped'
    } catch (error) {
      const wrapped = error instanceof UploadError ? error : undefined
      fail(
        wrapped ?? new UploadError('upload_failed', `uploading failed: ${String(error)}`, { cause: error }),
      )
    }
    if (hasFailed) this.#retryLater()
    else this.#backoff.reset()
  }

  async #upload(isFull: boolean, onFailure: (error: UploadError, source?: Source) => void): Promise<void> {
    const { dir, clock, limits, log } = this.#parts
    this.#figures.state = 'uploading'
    this.#state ??= await UploadState.load(
      dir,
      () => clock.now(),
      (error) => this.#report(error),
    )
    const state = this.#state
    const isDue = isFull || this.#isFullScanDue()
    const found = await scan(dir, isDue ? undefined : this.#daysToLookAt())
    this.#figures.pendingBytes = pendingIn(found, state)
    await uploadRound(
      {
        dir,
        state,
        controlPlane: this.#controlPlane,
        rangeBytes: limits.rangeBytes,
        pace: this.#pace,
        sizes: (sources) => sizesIn(log, dir, sources),
        onUploaded: (bytes) => this.#figures.uploaded(bytes, clock.now()),
        onFailure,
      },
      found.filter(({ source }) => !this.#stopped.has(source.path)),
      this.#closing.signal,
    )
    if (isDue) await this.#tidy(state, found)
    if (this.#figures.state === 'uploading') this.#figures.state = 'idle'
  }

  #isFullScanDue(): boolean {
    const now = this.#parts.clock.monotonic()
    return this.#lastFullScan === undefined || now - this.#lastFullScan >= FULL_SCAN_EVERY_MS
  }

  #daysToLookAt(): Set<string> {
    const now = this.#parts.clock.now()
    const recent = [now, now - MS_PER_DAY].map(dayOfInstant).filter((day) => day !== undefined)
    return new Set([...this.#days, ...recent])
  }

  /** Retention, and forgetting what is no longer there. */
  async #tidy(state: UploadState, found: readonly FoundFile[]): Promise<void> {
    this.#lastFullScan = this.#parts.clock.monotonic()
    this.#days = new Set()
    const there = new Set(found.map(({ source }) => source.path))
    for (const path of state.paths()) if (!there.has(path)) state.forget(path)
    for (const removed of await this.#parts.log.retainUploaded((path) => state.offsetOf(path))) {
      for (const path of state.paths()) {
        if (path === removed || path.startsWith(`${removed}/`)) state.forget(path)
      }
    }
    await state.save()
  }

  #report(error: UploadError): void {
    this.#figures.failed(error)
    this.#parts.onAsyncError(error)
  }

  #failed(error: UploadError, source?: Source): void {
    this.#report(error)
    if (error.isRetriable) {
      this.#retryAfterMs = Math.max(this.#retryAfterMs ?? 0, error.retryAfterMs ?? 0)
    } else if (error.reach === 'file' && source !== undefined) {
      this.#stopped.set(source.path, error)
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

function pendingIn(found: readonly FoundFile[], state: UploadState): number {
  return found.reduce((sum, { source, size }) => sum + Math.max(0, size - state.offsetOf(source.path)), 0)
}
