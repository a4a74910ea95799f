// The appender's status: counters, whether the log can be written, and the free space of its disk.

import type { Logger, Meter } from '@svc/core'
import type { CosigningStatus } from '../cosigning/cosigning.js'
import { type FileSystem, fromCallback } from '../files/file-system.js'
import type { AuditError } from '../format/errors.js'
import type { SealingStatus } from '../seal/sealer.js'
import type { UploadStatus } from '../upload/upload-status.js'

const CHECK_INTERVAL_MS = 30_000
const MIB = 1_048_576

interface DiskMonitorOptions {
  readonly dir: string
  /** Free space below which the disk counts as low; 0: never. */
  readonly minFreeBytes: number
  readonly port: FileSystem
  readonly logger: Logger
  readonly meter: Meter
}

interface DiskStatus {
  /** Space that unprivileged processes can use. */
  readonly freeBytes?: number
  /** Set while the disk is low. */
  readonly warning?: string
}

/** Warns before a full disk stops every call that must be recorded. */
export class DiskMonitor {
  readonly #options: DiskMonitorOptions
  readonly #unwatch: (() => void) | undefined
  #status: DiskStatus = {}
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(options: DiskMonitorOptions) {
    this.#options = options
    this.#unwatch = options.meter.watch?.('svc_audit_disk_free_bytes', () => this.#status.freeBytes)
  }

  /** The result of the last check. */
  get status(): DiskStatus {
    return this.#status
  }

  /** Checks now and every 30 seconds. Resolves after the first check. */
  async start(): Promise<void> {
    if (this.#stopped) return
    this.#timer ??= setInterval(() => void this.#check(), CHECK_INTERVAL_MS).unref()
    await this.#check()
  }

  stop(): void {
    this.#stopped = true
    this.#unwatch?.()
    clearInterval(this.#timer)
  }

  async #check(): Promise<void> {
    const { port, dir, minFreeBytes, meter, logger } = this.#options
    let freeBytes = 0
    try {
      await fromCallback((done) =>
        port.statfs(dir, (error, stats) => {
          if (error === null) freeBytes = stats.bavail * stats.bsize
          done(error)
        }),
      )
    } catch (err) {
      logger.warn({ err, dir }, "the free space of the log's disk cannot be read")
      return
    }
    const isLow = freeBytes < minFreeBytes
    const wasLow = this.#status.warning !== undefined
    const [free, least] = [freeBytes, minFreeBytes].map((bytes) => Math.floor(bytes / MIB))
    const warning = `the disk of the log has ${free} MiB left, less than ${least}`
    this.#status = isLow ? { freeBytes, warning } : { freeBytes }
    if (isLow === wasLow) return
    if (isLow) {
      meter.count('svc_audit_disk_low_total')
      logger.warn({ dir, freeBytes, minFreeBytes }, "the log's disk is low on space")
    } else {
      logger.info({ dir, freeBytes, minFreeBytes }, "the log's disk has enough space again")
    }
  }
}

export interface AppenderStatus {
  /** False while the last attempt to sign, to write, or to get the lock, has failed. */
  writable: boolean
  error?: AuditError
  /** Records made durable. */
  appended: number
  /** Records whose `append` rejected. */
  failed: number
  /** Bytes of accepted records that are not durable yet. */
  pendingBytes: number
  /** Batches made durable. */
  batches: number
  /** Duration of the last fdatasync, milliseconds. */
  lastSyncMs: number
  /** Records that the signing thread signed. */
  signedByThread: number
  /** Free space of the log's disk at the last check. */
  freeBytes?: number
  /** A problem that needs an operator while the log is writable: low disk space, failing seals, witnesses, a late upload. */
  warning?: string
  /** Set only with checkpoints. */
  sealing?: SealingStatus
  /** Set only with `config.witnesses`. */
  cosigning?: CosigningStatus
  /** Set only with `config.presign`. */
  upload?: UploadStatus
}

export class StatusTracker {
  appended = 0
  failed = 0
  pendingBytes = 0
  batches = 0
  lastSyncMs = 0
  signedByThread = 0
  /** Called when the log is not writable. */
  onWriteFailure: () => void = () => undefined
  /** Called for each durable batch. */
  onDurable: ((bytes: number, day: string) => void) | undefined
  #failure: AuditError | undefined
  #signerFailure: AuditError | undefined

  /** Whether the last attempt to sign or to write has failed. */
  get hasFailed(): boolean {
    return this.#failure !== undefined || this.#signerFailure !== undefined
  }

  batchWritten(records: number, bytes: number, day: string): void {
    this.appended += records
    this.pendingBytes -= bytes
    this.batches++
    this.#failure = undefined
    this.onDurable?.(bytes, day)
  }

  batchFailed(records: number, bytes: number, error: AuditError): void {
    this.failed += records
    this.pendingBytes -= bytes
    // Only records of that day are refused.
    if (error.code !== 'day_removed') this.writeFailed(error)
  }

  writeFailed(error: AuditError): void {
    this.#failure = error
    this.onWriteFailure()
  }

  recovered(): void {
    this.#failure = undefined
  }

  /** Kept apart from disk errors: a disk that works says nothing about a remote key. */
  signerFailed(error: AuditError): void {
    this.#signerFailure = error
  }

  batchUnsigned(records: number, bytes: number, error: AuditError): void {
    this.failed += records
    this.pendingBytes -= bytes
    this.signerFailed(error)
  }

  signerSucceeded(): void {
    this.#signerFailure = undefined
  }

  snapshot(override?: AuditError): AppenderStatus {
    const error = override ?? this.#failure ?? this.#signerFailure
    const { appended, failed, pendingBytes, batches, lastSyncMs, signedByThread } = this
    const writable = error === undefined
    const status = { writable, appended, failed, pendingBytes, batches, lastSyncMs, signedByThread }
    return error === undefined ? status : { ...status, error }
  }
}
