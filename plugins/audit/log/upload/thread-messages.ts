// What the uploader and its thread tell each other.

import type { PresignConfig } from './presign.js'
import type { UploadMode } from './source.js'

/** What the thread is started with. */
export interface UploadTask {
  readonly dir: string
  readonly config: PresignConfig
  readonly rangeBytes: number
  readonly idleMs: number
  /** Counts what the writer makes durable. */
  readonly appends: Int32Array<SharedArrayBuffer>
}

/** One look at the directory, and the upload of what is new there. */
export interface RoundRequest {
  /** Looks at all agents' files, and then removes what is past its retention. */
  readonly isFull: boolean
  /** Else the days of which agents' files are looked at. */
  readonly days: readonly string[]
  /** Paths that are left alone. */
  readonly stopped: readonly string[]
  /** Milliseconds since the epoch, by the writer's clock. */
  readonly now: number
}

/** A file whose size is asked for. */
export interface SizeQuestion {
  readonly path: string
  readonly mode: UploadMode
}

export interface SizeAnswer {
  /** In the order of the question; undefined for a file not to be uploaded now. */
  readonly sizes: readonly (number | undefined)[]
  /** As in `RoundRequest`. */
  readonly now: number
}

/** An `UploadError` as it crosses between threads. */
export interface ToldError {
  readonly code: 'upload_failed' | 'upload_rejected' | 'upload_file' | 'upload_state'
  readonly message: string
  readonly reach: 'all' | 'file'
  readonly retryAfterMs?: number
  readonly cause?: { readonly message: string; readonly code?: string }
}

/** What the thread needs of the log, which only the writer's own thread may touch. */
export interface Questions {
  sizes: { readonly asked: readonly SizeQuestion[]; readonly answer: SizeAnswer }
  /** Bytes of each file that the store has; answered with the paths that retention removed. */
  retain: { readonly asked: ReadonlyMap<string, number>; readonly answer: readonly string[] }
}

export type ToThread =
  | { readonly kind: 'round'; readonly round: RoundRequest }
  | { readonly kind: 'answer'; readonly id: number; readonly value: Questions[keyof Questions]['answer'] }
  | { readonly kind: 'no answer'; readonly id: number; readonly message: string }
  | { readonly kind: 'abort'; readonly reason: ToldError }

export type FromThread =
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  | { readonly kind: 'pending'; readonly bytes: number }
  | { readonly kind: 'uploaded'; readonly bytes: number }
  | { readonly kind: 'failed'; readonly error: ToldError; readonly path?: string }
  | { readonly kind: 'mended'; readonly error: ToldError }
  | { readonly kind: 'done' }

export type Question = {
  [Name in keyof Questions]: { readonly name: Name; readonly asked: Questions[Name]['asked'] }
}[keyof Questions]
