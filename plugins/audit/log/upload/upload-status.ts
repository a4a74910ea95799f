// What the upload knows of itself, for an operator.

import type { Meter } from '@svc/core'
import type { UploadError } from './error.js'

export interface UploadStatus {
  /**
   * `standby`: another process uploads this directory. `retrying`: the last attempt failed and will be
   * repeated. `stopped`: refused for good, until `flush()` or the next opening.
   */
  readonly state: 'idle' | 'uploading' | 'standby' | 'retrying' | 'stopped'
  /** Bytes and objects that the store has taken from this process. */
  readonly uploadedBytes: number
  readonly objects: number
  /** Bytes known to this process that the store may not have yet. */
  readonly pendingBytes: number
  readonly failures: number
  /** Milliseconds since the epoch, of the last object. */
  readonly lastUploadAt?: number
  /** Why it does not upload, or leaves a file out; else the last failure that no success followed. */
  readonly error?: UploadError
}

export class UploadFigures {
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
