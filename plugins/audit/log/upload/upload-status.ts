// The upload's status, counters and gauges.

import type { Clock, Meter } from '@svc/core'
import { defined } from '@svc/core/json'
import type { UploadError } from './error.js'

export interface UploadStatus {
  /**
   * `standby`: another process uploads this directory, and reports what is pending. `retrying`: the last attempt failed
   * and will be repeated. `stopped`: until `flush()` or the next opening.
   */
  readonly state: 'idle' | 'uploading' | 'standby' | 'retrying' | 'stopped'
  /** Bytes and objects uploaded by this process. */
  readonly uploadedBytes: number
  readonly objects: number
  /** Known bytes that may not be uploaded yet. */
  readonly pendingBytes: number
  /**
   * The time since which the oldest of them waits, milliseconds since the epoch; an upper bound for files older than
   * the start.
   */
  readonly pendingSince?: number
  /** Whether the bytes wait for longer than `presign.maxDelayMs`. */
  readonly isBehind: boolean
  readonly failures: number
  /** Time of the last object, milliseconds since the epoch. */
  readonly lastUploadAt?: number
  /** Why a file, or the upload, is refused or stopped; else the last failure that no success followed. */
  readonly error?: UploadError
}

export class UploadMetrics {
  /** Whether another process uploads, so that what is pending is not known here. */
  isStandby = false
  #pendingBytes = 0
  readonly #meter: Meter
  readonly #unwatch: readonly ((() => void) | undefined)[]
  readonly #clock: Clock
  readonly #maxDelayMs: number
  #uploadedBytes = 0
  #objects = 0
  #failures = 0
  #pendingSince: number | undefined
  /** The first append since the current round began. */
  #appendedSince: number | undefined
  #lastUploadAt: number | undefined
  #error: UploadError | undefined

  constructor(meter: Meter, clock: Clock, maxDelayMs: number) {
    this.#meter = meter
    this.#clock = clock
    this.#maxDelayMs = maxDelayMs
    this.#unwatch = [
      meter.watch?.('svc_audit_upload_pending_bytes', () => this.#pendingBytes),
      meter.watch?.('svc_audit_upload_oldest_pending_seconds', () => this.#delayMs() / 1000),
      meter.watch?.(
        'svc_audit_upload_last_success_timestamp_seconds',
        () => this.#lastUploadAt && this.#lastUploadAt / 1000,
      ),
    ]
  }

  appended(bytes: number): void {
    if (this.isStandby) return
    this.#pendingBytes += bytes
    if (this.#pendingSince !== undefined && this.#appendedSince !== undefined) return
    const now = this.#clock.now()
    this.#pendingSince ??= now
    this.#appendedSince ??= now
  }

  roundBegins(): void {
    this.isStandby = false
    this.#appendedSince = undefined
  }

  /** Takes the result of a scan; `since`: the last write to the file that has waited longest. */
  found(bytes: number, since: number | undefined): void {
    this.#pendingBytes = bytes
    if (bytes > 0 && since !== undefined) this.#pendingSince ??= Math.min(since, this.#clock.now())
  }

  /** Everything that the round found is uploaded. */
  roundSucceeded(): void {
    this.#pendingSince = this.#appendedSince
  }

  standBy(): void {
    this.isStandby = true
    this.#pendingBytes = 0
    this.#pendingSince = undefined
    this.#appendedSince = undefined
  }

  uploaded(bytes: number): void {
    this.#uploadedBytes += bytes
    this.#objects++
    this.#pendingBytes = Math.max(0, this.#pendingBytes - bytes)
    this.#lastUploadAt = this.#clock.now()
    this.#error = undefined
    this.#meter.count('svc_audit_upload_bytes_total', bytes)
    this.#meter.count('svc_audit_upload_objects_total')
  }

  failed(error: UploadError): void {
    this.#failures++
    this.#error = error
    this.#meter.count('svc_audit_upload_failures_total')
  }

  /** Ends the gauges. */
  close(): void {
    for (const unwatch of this.#unwatch) unwatch?.()
  }

  status(state: UploadStatus['state'], standing: UploadError | undefined): UploadStatus {
    const error = standing ?? this.#error
    return {
      state,
      uploadedBytes: this.#uploadedBytes,
      objects: this.#objects,
      pendingBytes: this.#pendingBytes,
      ...defined({ pendingSince: this.#pendingSince }),
      isBehind: this.#delayMs() > this.#maxDelayMs,
      failures: this.#failures,
      ...defined({ lastUploadAt: this.#lastUploadAt, error }),
    }
  }

  #delayMs(): number {
    return this.#pendingSince === undefined ? 0 : Math.max(0, this.#clock.now() - this.#pendingSince)
  }
}

/** The warning for an operator; undefined while the upload keeps up. */
export function uploadWarning({
  isBehind,
  pendingBytes,
  pendingSince,
  error,
}: UploadStatus): string | undefined {
  if (!isBehind || pendingSince === undefined) return undefined
  const since = new Date(pendingSince).toISOString()
  const why = error === undefined ? '' : `: ${error.message}`
  return `the upload is behind: ${pendingBytes} bytes wait, the oldest since ${since}${why}`
}
