// The appender's status: counters, and whether the log can be written.

import type { CosigningStatus } from '../cosigning/cosigning.js'
import type { AuditError } from '../format/errors.js'
import type { SealingStatus } from '../seal/sealer.js'
import type { UploadStatus } from '../upload/upload-status.js'

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
