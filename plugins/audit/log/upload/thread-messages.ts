// Messages between the uploader and its thread.

import type { PresignConfig } from './presign.js'
import type { UploadMode } from './source.js'

/** The thread's `workerData`. */
export interface UploadTask {
  readonly dir: string
  readonly config: PresignConfig
  readonly retentionDays: number
  readonly rangeBytes: number
  readonly idleMs: number
  /** The counter of durable batches. */
  readonly appends: Int32Array<SharedArrayBuffer>
}

/** One scan of the directory and the upload of new bytes. */
export interface RoundRequest {
  /** Scans all agents' files, then applies retention. */
  readonly isFull: boolean
  /** Otherwise the days whose agents' files are scanned. */
  readonly days: readonly string[]
  /** Paths to leave out. */
  readonly skipped: readonly string[]
  /** Whether the writer began the log, so that nothing of it was uploaded before. */
  readonly isNewLog: boolean
  /** Milliseconds since the epoch, by the writer's clock. */
  readonly now: number
}

/** A file whose size is requested. */
export interface SizeRequest {
  readonly path: string
  readonly mode: UploadMode
}

export interface SizeResponse {
  /** In the order of the request; undefined for a file not to be uploaded now. */
  readonly sizes: readonly (number | undefined)[]
  /** As in `RoundRequest`. */
  readonly now: number
}

/** An `UploadError` in a message. */
export interface SerializedError {
  readonly code: 'upload_failed' | 'upload_rejected' | 'upload_file' | 'upload_state'
  readonly message: string
  readonly scope: 'all' | 'file'
  readonly retryAfterMs?: number
  readonly cause?: { readonly message: string; readonly code?: string }
}
