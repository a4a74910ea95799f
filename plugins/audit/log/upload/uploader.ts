// Uploads appended bytes in rounds and keeps the counters. A thread of its own reads, hashes and sends, so no append waits
// for it; failures are reported, not thrown.
import { once } from 'node:events'
import { join } from 'node:path'
import type { MessagePort } from 'node:worker_threads'
import type { Clock, Meter, Signer } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { hasWorkerFile, inThisThread, type ServedCalls, startWorker, Thread } from '@svc/core/thread'
import { HeldLock } from '../files/directory-lock.js'
import { nodeFileSystem } from '../files/file-system.js'
import { dayOfInstant } from '../format/paths.js'
import type { RoundRequest, UploadHost, UploadTask } from './directory-upload.js'
import {
  asUploadError,
  deserializeError,
  type SerializedError,
  serializeError,
  UploadError,
} from './error.js'
import { fileSizes, stateKey, type UploadedLog } from './file-sizes.js'
import {
  DEFAULT_INTERVAL_MS,
  DEFAULT_MAX_DELAY_MS,
  DEFAULT_TIMEOUT_MS,
  type PresignConfig,
  plainPresign,
} from './presign.js'
import { type RoundResult, UploadSchedule } from './schedule.js'
import { UploadMetrics, type UploadStatus } from './upload-status.js'

interface ThreadMethods {
  round(request: RoundRequest): Promise<void>
  abort(reason: SerializedError): void
}

/** The file of the thread; beside a bundle there may be none. */
const workerFile = () => new URL('./upload-worker.js', import.meta.url)

/** The first round starts the thread; after it dies, the next round starts another. */
class UploadThread {
  readonly #task: UploadTask
  readonly #host: { readonly [Name in keyof UploadHost]: UploadHost[Name] }
  #thread: ServedCalls<ThreadMethods> | undefined

  constructor(task: UploadTask, host: UploadHost) {
    this.#task = task
    this.#host = { ...host }
  }

  /**
   * Resolves when the round has ended, even with failures; one at a time. Keeps the process alive until then.
   *
   * @throws {UploadError} `upload_failed` when the thread has died.
   */
  async round(request: RoundRequest): Promise<void> {
    this.#thread ??= this.#start()
    try {
      await this.#thread.call('round', request)
    } catch (cause) {
      throw new UploadError('upload_failed', `the upload thread died: ${messageOf(cause)}`, { cause })
    }
  }

  /** Aborts the uploads in progress, in this and every later round. */
  abort(reason: UploadError): void {
    this.#thread?.tell('abort', serializeError(reason))
  }

  async close(): Promise<void> {
    await this.#thread?.close()
  }

  #start(): ServedCalls<ThreadMethods> {
    if (!hasWorkerFile(workerFile)) return inThisThread((port) => void this.#serve(port), this.#host)
    const worker = startWorker(workerFile(), { workerData: this.#task })
    return new Thread(worker, this.#host, () => {
      this.#thread = undefined
    })
  }

  async #serve(port: MessagePort): Promise<void> {
    const { serveUploads } = await import('./directory-upload.js')
    serveUploads(port, this.#task)
  }
}

const FULL_SCAN_INTERVAL_MS = 3_600_000
const MS_PER_DAY = 86_400_000

export interface UploadLimits {
  /** New bytes that start an upload before its interval is over. Default 1 MiB. */
  uploadTriggerBytes: number
  /** Maximum bytes of one uploaded object, unless one record is larger. Default 64 MiB. */
  uploadRangeBytes: number
  /** Time without progress after which the upload of an object is aborted, ms. Default 30 000. */
  uploadIdleMs: number
  /**
   * First delay of the upload after a refusal (401, 403, another 4xx), ms; doubled up to ten times of it. Default 60
   * 000.
   */
  uploadRefusalMs: number
}

export interface UploaderOptions {
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
  readonly #options: UploaderOptions
  readonly #thread: UploadThread
  /** One process uploads a directory at a time; the next one continues from the state file. */
  readonly #lock: HeldLock
  readonly #schedule: UploadSchedule
  readonly #metrics: UploadMetrics
  /** Counts durable batches. */
  readonly #appends = new Int32Array(new SharedArrayBuffer(4))
  readonly #closing = new AbortController()
  /** Files skipped after a refusal or a final failure. */
  readonly #skipped = new Map<string, UploadError>()
  /** Days whose agents' files have grown since the last full scan. */
  #days = new Set<string>()
  #newestDay = ''
  #newBytes = 0
  /** The refusal or the final failure that keeps every file from being uploaded. */
  #obstacle: UploadError | undefined
  /** Set after a failure in this round: the longest delay that the other side has requested. */
  #retryAfterMs: number | undefined
  #wasRefused = false
  #lastFullScan: number | undefined
  #closed: Promise<void> | undefined

  constructor(options: UploaderOptions) {
    this.#options = options
    const { dir, config, retentionDays, limits, clock, meter, random, log, signer } = options
    this.#lock = new HeldLock(join(dir, '.svc-upload-lock'), nodeFileSystem)
    const { uploadRefusalMs: refusalMs, uploadRangeBytes: rangeBytes, uploadIdleMs: idleMs } = limits
    const { intervalMs = DEFAULT_INTERVAL_MS } = config
    this.#schedule = new UploadSchedule(
      {
        round: (isFull) => this.#round(isFull),
        hasNewBytes: () => this.#newBytes > 0,
        isBlocked: () => this.#obstacle !== undefined,
        forgetRefusals: () => this.#forgetRefusals(),
      },
      { intervalMs, refusalMs, random },
    )
    this.#metrics = new UploadMetrics(meter, clock, config.maxDelayMs ?? DEFAULT_MAX_DELAY_MS)
    this.#thread = new UploadThread(
      { dir, config: plainPresign(config), retentionDays, rangeBytes, idleMs, appends: this.#appends },
      {
        sizes: async (files) => ({ sizes: await fileSizes(log, dir, files), now: clock.now() }),
        retain: (uploaded) => log.retainUploaded((path) => uploaded.get(path) ?? 0),
        ...stateKey(log, signer),
        pending: (bytes, since) => this.#metrics.found(bytes, since),
        uploaded: (bytes) => this.#metrics.uploaded(bytes),
        failed: (error, path) => this.#failed(deserializeError(error), path),
        warned: (error) => this.#report(deserializeError(error)),
      },
    )
  }

  /** Starts uploading, now and at every interval. Call after the directory is open. */
  start(): void {
    this.#schedule.start()
  }

  /** Reports durable bytes of `day`. Cheap enough for every batch. */
  bytesAppended(bytes: number, day: string): void {
    Atomics.add(this.#appends, 0, 1)
    this.#days.add(day)
    this.#metrics.appended(bytes)
    this.#newBytes += bytes
    const hasRotated = day > this.#newestDay && this.#newestDay !== ''
    if (day > this.#newestDay) this.#newestDay = day
    if (hasRotated || this.#newBytes >= this.#options.limits.uploadTriggerBytes) this.#schedule.wake()
  }

  /**
   * Tries once to upload everything, including refused files and keys. Resolves when the attempt has ended, even
   * after a failure; another process may be the one that uploads.
   */
  async flush(): Promise<void> {
    await this.#schedule.flush(() => {
      this.#obstacle = undefined
      this.#skipped.clear()
    })
  }

  /** Makes a last attempt of at most `timeoutMs`; the next opening uploads the rest. Safe to call twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  status(): UploadStatus {
    return this.#metrics.status(this.#state, this.#obstacle ?? [...this.#skipped.values()][0])
  }

  async #close(): Promise<void> {
    this.#schedule.stop()
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.#options.config
    const limit = setTimeout(() => {
      this.#closing.abort()
      this.#thread.abort(new UploadError('upload_failed', 'the log was closed before all was uploaded'))
    }, timeoutMs)
    try {
      await this.#schedule.idle()
      if (!this.#schedule.isStarted || this.#obstacle?.retry === 'never') return
      this.#forgetRefusals()
      const { agentLogs } = await this.#options.log.open()
      await Promise.race([agentLogs.idle(), once(this.#closing.signal, 'abort')])
      if (!this.#closing.signal.aborted) await this.#schedule.flush()
    } finally {
      clearTimeout(limit)
      this.#metrics.close()
      await this.#thread.close()
      this.#lock.release()
    }
  }

  /** Never rejects. */
  async #round(isFull: boolean): Promise<RoundResult> {
    this.#newBytes = 0
    this.#retryAfterMs = undefined
    this.#wasRefused = false
    try {
      if (this.#lock.acquire()) await this.#upload(isFull)
      else this.#metrics.standBy()
    } catch (error) {
      this.#failed(asUploadError(error))
    }
    const earlier = this.#skipped.size === 0 ? 'none' : 'skipped'
    return { retryAfterMs: this.#retryAfterMs, refusals: this.#wasRefused ? 'refused' : earlier }
  }

  async #upload(isRequested: boolean): Promise<void> {
    const isFull = isRequested || this.#isFullScanDue()
    const days = this.#daysToLookAt()
    const skipped = [...this.#skipped.keys()]
    // A file that grows from now on may have been scanned already.
    if (isFull) this.#days = new Set()
    this.#metrics.roundBegins()
    const { isNew: isNewLog } = await this.#options.log.open()
    await this.#thread.round({ isFull, days, skipped, isNewLog, now: this.#options.clock.now() })
    // After a failure, agents' files of any day may be incomplete.
    const isWhole =
      this.#retryAfterMs === undefined && this.#obstacle === undefined && this.#skipped.size === 0
    if (isFull)
      this.#lastFullScan = this.#retryAfterMs === undefined ? this.#options.clock.monotonic() : undefined
    if (isWhole) this.#metrics.roundSucceeded()
  }

  #isFullScanDue(): boolean {
    const now = this.#options.clock.monotonic()
    return this.#lastFullScan === undefined || now - this.#lastFullScan >= FULL_SCAN_INTERVAL_MS
  }

  #daysToLookAt(): string[] {
    const now = this.#options.clock.now()
    const recent = [now, now - MS_PER_DAY].map(dayOfInstant).filter((day) => day !== undefined)
    return [...new Set([...this.#days, ...recent])]
  }

  #report(error: UploadError): void {
    this.#metrics.failed(error)
    this.#options.onAsyncError(error)
  }

  #failed(error: UploadError, path?: string): void {
    this.#report(error)
    if (error.retry === 'soon') {
      this.#retryAfterMs = Math.max(this.#retryAfterMs ?? 0, error.retryAfterMs ?? 0)
      return
    }
    if (error.retry === 'slowly') this.#wasRefused = true
    if (error.scope === 'file' && path !== undefined) {
      this.#skipped.set(path, error)
    } else {
      this.#obstacle = error
    }
  }

  get #state(): UploadStatus['state'] {
    if (this.#obstacle?.retry === 'never') return 'stopped'
    const isRefused = [...this.#skipped.values()].some(({ retry }) => retry === 'slowly')
    if (this.#obstacle !== undefined || this.#retryAfterMs !== undefined || isRefused) return 'retrying'
    if (this.#schedule.isRunning) return 'uploading'
    return this.#metrics.isStandby ? 'standby' : 'idle'
  }

  /** The next round tries again what was refused. */
  #forgetRefusals(): void {
    if (this.#obstacle?.retry === 'slowly') this.#obstacle = undefined
    for (const [path, { retry }] of this.#skipped) if (retry === 'slowly') this.#skipped.delete(path)
    // The refused files may be agents' files of any day.
    this.#lastFullScan = undefined
  }
}
