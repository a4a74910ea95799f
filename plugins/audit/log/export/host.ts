// The methods that the thread of the exports and the writer's side call of each other.

import type { StateKey } from '../upload/state-file.js'
import type { ReceiverConfig, ReceiverSecrets } from './config.js'

/** Bytes of a day that a receiver never gets. */
export interface ExportGap {
  readonly receiver: string
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly bytes: number
  /** `removed`: retention removed the day first. `damaged`: the bytes are not records. */
  readonly reason: 'removed' | 'damaged'
}

export interface ExportProgress {
  readonly pendingBytes: number
  /** `ts` of the oldest record that waits, milliseconds since the epoch; undefined if none does. */
  readonly oldest: number | undefined
  /** Records that the receiver has taken since the last report. */
  readonly sent: number
}

/** The writer's side. */
export interface ExportHost extends StateKey {
  /** Sizes of daily logs without partly written batches; undefined if another process exports this log. */
  sizes(names: readonly string[]): Promise<readonly (number | undefined)[] | undefined>
  secrets(receiver: string): Promise<ReceiverSecrets>
  progress(receiver: string, progress: ExportProgress): void
  /** Resolves when the gap is recorded. */
  gap(gap: ExportGap): Promise<void>
  /** A condition that does not stop the export. */
  warned(message: string): void
}

/** The end of a round, without the class of the error, which messages between threads do not keep. */
export interface RoundEnd {
  readonly isStandby: boolean
  readonly error?:
    | {
        readonly code: 'export_failed' | 'export_refused'
        readonly message: string
        readonly retryAfterMs: number | undefined
      }
    | undefined
}

/** The thread's `workerData`. */
export interface ExportTask {
  readonly dir: string
  readonly receivers: readonly ReceiverConfig[]
  /** Counts durable batches. */
  readonly appends: Int32Array<SharedArrayBuffer>
}

export interface ExportThreadMethods {
  /** `now`: milliseconds since the epoch, by the writer's clock. */
  round(receiver: string, now: number): Promise<RoundEnd>
  abort(): void
}
