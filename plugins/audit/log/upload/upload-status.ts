// The upload's status and counters.

import type { Meter } from '@svc/core'
import type { UploadError } from './error.js'

export interface UploadStatus {
  /**
   * `standby`: another process uploads this directory. `retrying`: the last attempt failed and will be repeated.
   * `stopped`: refused finally, until `flush()` or the next opening.
   */
  readonly state: 'idle' | 'uploading' | 'standby' | 'retrying' | 'stopped'
  /** Bytes and objects uploaded by this process. */
  readonly uploadedBytes: number
  readonly objects: number
  /** Known bytes that may not be uploaded yet. */
  readonly pendingBytes: number
  readonly failures: number
  /** Time of the last object, milliseconds since the epoch. */
  readonly lastUploadAt?: number
  /** Why the upload or a file is stopped; else the last failure that no success followed. */
  readonly error?: UploadError
}

export class UploadMetrics {
  state: UploadStatus['state'] = 'idle'
  pendingBytes = 0
  readonly #meter: Meter
  #uploadedBytes = 0
  #objects = 0
  #failures = 0
  #lastUploadAt: number | undefined
  #error: UploadError | undefined

  constructor(meter: Meter) {
    this.#meter = meter
  }

  uploaded(bytes: number, at: number): void {
    this.#uploadedBytes += bytes
    this.#objects++
    this.pendingBytes = Math.max(0, this.pendingBytes - bytes)
    this.#lastUploadAt = at
    this.#error = undefined
    this.#meter.count('svc_audit_upload_bytes_total', bytes)
    this.#meter.count('svc_audit_upload_objects_total')
  }

  failed(error: UploadError): void {
    this.#failures++
    this.#error = error
    this.#meter.count('svc_audit_upload_failures_total')
  }

  status(standing: UploadError | undefined): UploadStatus {
    const error = standing ?? this.#error
    return {
      state: this.state,
      uploadedBytes: this.#uploadedBytes,
      objects: this.#objects,
      pendingBytes: this.pendingBytes,
      failures: this.#failures,
      ...(this.#lastUploadAt === undefined ? {} : { lastUploadAt: this.#lastUploadAt }),
      ...(error === undefined ? {} : { error }),
    }
  }
}
