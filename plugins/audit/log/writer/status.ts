// What the appender knows of itself: figures for an operator, and whether the log can be written.

import type { AuditError } from '../format/errors.js'
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
  /** Records whose signature is the signing thread's. */
  signedByThread: number
  /** Free space of the log's disk, as last seen. */
  freeBytes?: number
  /** What needs an operator though the log can be written: the disk runs low. */
  warning?: string
  /** Only with `config.presign`. */
  upload?: UploadStatus
}

export class Health {
  appended = 0
  failed = 0
  pendingBytes = 0
  batches = 0
  lastSyncMs = 0
  signedByThread = 0
  /** Called whenever the log is found not to be writable. */
  onBroken: () => void = () => undefined
  /** Called with each batch that has become durable. */
  onDurable: (bytes: number, day: string) => void = () => undefined
  #failure: AuditError | undefined
  #signerFailure: AuditError | undefined

  accepted(bytes: number): void {
    this.pendingBytes += bytes
  }

  durable(records: number, bytes: number, day: string): void {
    this.appended += records
    this.pendingBytes -= bytes
    this.batches++
    this.#failure = undefined
    this.onDurable(bytes, day)
  }

  lost(records: number, bytes: number, error: AuditError): void {
    this.failed += records
    this.pendingBytes -= bytes
    this.broken(error)
  }

  broken(error: AuditError): void {
    this.#failure = error
    this.onBroken()
  }

  recovered(): void {
    this.#failure = undefined
  }

  /** Apart from faults of the disk: that the disk works says nothing of a key that lives elsewhere. */
  signerFailed(error: AuditError): void {
    this.#signerFailure = error
  }

  /** Records that were accepted and could not be signed. */
  unsigned(records: number, bytes: number, error: AuditError): void {
    this.failed += records
    this.pendingBytes -= bytes
    this.signerFailed(error)
  }

  signed(): void {
    this.#signerFailure = undefined
  }

  status(override?: AuditError): AppenderStatus {
    const error = override ?? this.#failure ?? this.#signerFailure
    const { appended, failed, pendingBytes, batches, lastSyncMs, signedByThread } = this
    return {
      writable: error === undefined,
      ...(error === undefined ? {} : { error }),
      appended,
      failed,
      pendingBytes,
      batches,
      lastSyncMs,
      signedByThread,
    }
  }
}
