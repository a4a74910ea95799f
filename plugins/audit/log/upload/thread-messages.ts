// Messages between the uploader and its thread.

import type { JsonObject } from '@svc/core/json'
import type { PresignConfig } from './presign.js'
import type { UploadMode } from './source.js'
import type { StateSignature } from './state-signature.js'

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

/** Requests of the thread about the log and its key, which only the writer's thread may access. */
export interface Requests {
  sizes: { readonly params: readonly SizeRequest[]; readonly result: SizeResponse }
  /** The signature of the state. */
  sign: { readonly params: JsonObject; readonly result: StateSignature }
  /** Whether the signature of the state is of the log's key. */
  isSigned: { readonly params: JsonObject; readonly result: boolean }
  /** Stored bytes of each file; the result is the paths that retention removed. */
  retain: { readonly params: ReadonlyMap<string, number>; readonly result: readonly string[] }
}

export type ToThread =
  | { readonly kind: 'round'; readonly round: RoundRequest }
  | { readonly kind: 'response'; readonly id: number; readonly value: Requests[keyof Requests]['result'] }
  | { readonly kind: 'error'; readonly id: number; readonly message: string }
  | { readonly kind: 'abort'; readonly reason: SerializedError }

export type FromThread =
  | { readonly kind: 'request'; readonly id: number; readonly request: Request }
  | { readonly kind: 'pending'; readonly bytes: number; readonly since: number | undefined }
  | { readonly kind: 'uploaded'; readonly bytes: number }
  | { readonly kind: 'failed'; readonly error: SerializedError; readonly path?: string }
  | { readonly kind: 'warned'; readonly error: SerializedError }
  | { readonly kind: 'done' }

export type Request = {
  [Name in keyof Requests]: { readonly name: Name; readonly params: Requests[Name]['params'] }
}[keyof Requests]
