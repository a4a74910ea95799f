// Exports the log to its receivers in the background. A thread of its own reads and sends, so no append waits for it;
// failures are reported and repeated, not thrown. Retention does not wait for a receiver: what it removes first is
// stated as a gap.

import { join } from 'node:path'
import type { Clock, Meter, Signer } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { startWorker, Thread } from '@svc/core/thread'
import { nodeFileSystem, sizeOf } from '../files/file-system.js'
import { HeldLock } from '../files/kernel-lock.js'
import { AuditError } from '../format/errors.js'
import type { UploadedLog } from '../upload/file-sizes.js'
import { UploadSchedule } from '../upload/schedule.js'
import { stateKey } from '../upload/state-key.js'
import type { ExportConfig } from './config.js'
import { type ExportStatus, ExportStatusTracker } from './export-status.js'
import type { ExportGap, ExportHost, ExportTask, ExportThreadMethods, RoundEnd } from './host.js'

const INTERVAL_MS = 1_000
const REFUSAL_MS = 30_000
/** Other processes may append to the same directory, which this one does not notice. */
const SCAN_INTERVAL_MS = 10_000
/** How long the last attempt at the close of the log may take. */
const CLOSE_MS = 5_000

interface ExporterParts {
  readonly dir: string
  readonly exports: readonly ExportConfig[]
  readonly clock: Clock
  readonly meter: Meter
  readonly random: () => number
  readonly log: UploadedLog
  readonly signer: Signer
  readonly onAsyncError: (error: Error) => void
  readonly onGap: (gap: ExportGap) => Promise<void>
}

interface ReceiverExport {
  readonly tracker: ExportStatusTracker
  readonly schedule: UploadSchedule
}

export class Exporter {
  readonly #parts: ExporterParts
  readonly #receivers = new Map<string, ReceiverExport>()
  /** One process exports a directory at a time; the next one continues from the positions. */
  readonly #lock: HeldLock
  readonly #appends = new Int32Array(new SharedArrayBuffer(4))
  readonly #host: ExportHost
  readonly #unwatch: readonly ((() => void) | undefined)[]
  #thread: Thread<ExportThreadMethods> | undefined
  #closed: Promise<void> | undefined

  constructor(parts: ExporterParts) {
    this.#parts = parts
    const { dir, exports, clock, meter, random, log, signer, onAsyncError, onGap } = parts
    this.#lock = new HeldLock(join(dir, '.svc-export-lock'), nodeFileSystem)
    for (const { receiver } of exports) {
      const tracker = new ExportStatusTracker(receiver, clock)
      this.#receivers.set(receiver.name, {
        tracker,
        schedule: this.#scheduleOf(receiver.name, tracker, random),
      })
    }
    this.#host = {
      ...stateKey(log, signer),
      sizes: async (names) => {
        if (!this.#lock.acquire()) return undefined
        const { lock } = await log.open()
        return lock.run(() => names.map((name) => sizeOf(nodeFileSystem, join(dir, name))))
      },
      secrets: async (name) =>
        (await exports.find(({ receiver }) => receiver.name === name)?.secrets?.()) ?? {},
      progress: (name, progress) => {
        this.#receivers.get(name)?.tracker.progressed(progress)
        meter.count('svc_audit_export_records_total', progress.sent)
      },
      gap: async (gap) => {
        meter.count('svc_audit_export_gap_bytes_total', gap.bytes)
        onAsyncError(new AuditError('export_gap', describeGap(gap)))
        await onGap(gap)
      },
      warned: (message) => onAsyncError(new AuditError('export_failed', message)),
    }
    this.#unwatch = [
      meter.watch?.('svc_audit_export_pending_bytes', () =>
        this.status().reduce((sum, { pendingBytes }) => sum + pendingBytes, 0),
      ),
      meter.watch?.(
        'svc_audit_export_lag_seconds',
        () => Math.max(...this.status().map(({ lagMs }) => lagMs)) / 1000,
      ),
    ]
  }

  /** Starts the rounds. Call after the directory is open. */
  start(): void {
    for (const { schedule } of this.#receivers.values()) schedule.start()
  }

  /** Reports a durable batch. Cheap enough for every batch: the next interval begins a round. */
  bytesAppended(bytes: number): void {
    Atomics.add(this.#appends, 0, 1)
    for (const { tracker } of this.#receivers.values()) tracker.appended(bytes)
  }

  /** Resolves when one attempt for each receiver has ended. */
  async flush(): Promise<void> {
    await Promise.all([...this.#receivers.values()].map(({ schedule }) => schedule.flush()))
  }

  /** Makes a last attempt; the next opening exports the rest. Safe to call twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  status(): ExportStatus[] {
    return [...this.#receivers.values()].map(({ tracker }) => tracker.status())
  }

  #scheduleOf(name: string, tracker: ExportStatusTracker, random: () => number): UploadSchedule {
    return new UploadSchedule(
      {
        round: (isFull) => this.#round(name, tracker, isFull),
        hasNewBytes: () => false,
        isBlocked: () => tracker.isRefused,
        forgetRefusals: () => tracker.forgetRefusal(),
      },
      { intervalMs: INTERVAL_MS, refusalMs: REFUSAL_MS, random },
    )
  }

  /** Never rejects. */
  async #round(name: string, tracker: ExportStatusTracker, isFull: boolean) {
    const { clock, meter, onAsyncError } = this.#parts
    if (isFull || tracker.isDue(clock.monotonic(), SCAN_INTERVAL_MS)) {
      tracker.begins(clock.monotonic())
      const { isStandby, error } = await this.#ask(name)
      if (tracker.ended(isStandby, error))
        onAsyncError(
          new AuditError(error?.code ?? 'export_failed', `the export to ${name} failed: ${error?.message}`),
        )
      if (error !== undefined) meter.count('svc_audit_export_failures_total')
    }
    return tracker.result
  }

  async #ask(name: string): Promise<RoundEnd> {
    this.#thread ??= this.#start()
    try {
      return await this.#thread.call('round', name, this.#parts.clock.now())
    } catch (cause) {
      const message = `the thread of the exports died: ${messageOf(cause)}`
      return { isStandby: false, error: { code: 'export_failed', message, retryAfterMs: undefined } }
    }
  }

  #start(): Thread<ExportThreadMethods> {
    const { dir, exports } = this.#parts
    const workerData: ExportTask = {
      dir,
      receivers: exports.map(({ receiver }) => receiver),
      appends: this.#appends,
    }
    const worker = startWorker(new URL('./export-worker.js', import.meta.url), { workerData })
    return new Thread(worker, { ...this.#host }, () => {
      this.#thread = undefined
    })
  }

  async #close(): Promise<void> {
    for (const { schedule } of this.#receivers.values()) schedule.stop()
    const limit = setTimeout(() => this.#thread?.tell('abort'), CLOSE_MS)
    try {
      await Promise.all(
        [...this.#receivers.values()].map(async ({ schedule, tracker }) => {
          await schedule.idle()
          // A receiver that fails would only delay the close.
          if (schedule.isStarted && tracker.result.retryAfterMs === undefined && !tracker.isRefused) {
            await schedule.flush()
          }
        }),
      )
    } finally {
      clearTimeout(limit)
      for (const unwatch of this.#unwatch) unwatch?.()
      await this.#thread?.close()
      this.#lock.release()
    }
  }
}

export function describeGap({ receiver, day, bytes, reason }: ExportGap): string {
  const why = reason === 'removed' ? 'retention removed them first' : 'they are not records'
  return `${bytes} bytes of ${day} were not exported to ${receiver}: ${why}`
}
