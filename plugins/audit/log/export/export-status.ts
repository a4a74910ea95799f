// The status of the export to one receiver.

import type { Clock } from '@svc/core'
import type { RoundResult } from '../upload/schedule.js'
import type { ReceiverConfig } from './config.js'
import type { ExportProgress, RoundEnd } from './host.js'

export interface ExportStatus {
  readonly receiver: string
  /** `standby`: another process exports this directory, and reports what waits. */
  readonly state: 'idle' | 'exporting' | 'standby' | 'retrying'
  /** Records that this process has sent. */
  readonly records: number
  readonly pendingBytes: number
  /** Age of the oldest record that waits, milliseconds. */
  readonly lagMs: number
  /** Whether it waits for longer than `maxDelayMs`. */
  readonly isBehind: boolean
  readonly failures: number
  /** The last failure that no success followed. */
  readonly error?: string
}

export class ExportStatusTracker {
  readonly #config: ReceiverConfig
  readonly #clock: Clock
  #records = 0
  #failures = 0
  #pendingBytes = 0
  /** Milliseconds since the epoch. */
  #oldest: number | undefined
  #error: RoundEnd['error']
  #isStandby = false
  #isRunning = false
  #hasNewBytes = true
  /** The bytes that were appended since the round began, which the next one sends. */
  #appended: { bytes: number; since: number | undefined } = { bytes: 0, since: undefined }
  #lastRoundAt = Number.NEGATIVE_INFINITY
  #isForgotten = false

  constructor(config: ReceiverConfig, clock: Clock) {
    this.#config = config
    this.#clock = clock
  }

  appended(bytes: number): void {
    this.#hasNewBytes = true
    if (this.#isStandby) return
    this.#appended.bytes += bytes
    this.#appended.since ??= this.#clock.now()
    this.#pendingBytes += bytes
    this.#oldest ??= this.#appended.since
  }

  isDue(now: number, scanIntervalMs: number): boolean {
    return this.#hasNewBytes || this.#error !== undefined || now - this.#lastRoundAt >= scanIntervalMs
  }

  begins(now: number): void {
    this.#lastRoundAt = now
    this.#hasNewBytes = false
    this.#appended = { bytes: 0, since: undefined }
    this.#isRunning = true
  }

  progressed({ pendingBytes, oldest, sent }: ExportProgress): void {
    this.#records += sent
    this.#pendingBytes = pendingBytes + this.#appended.bytes
    this.#oldest = oldest ?? this.#appended.since
  }

  /** Returns whether the failure differs from the last one, and is to be reported. */
  ended(isStandby: boolean, error: RoundEnd['error']): boolean {
    const isNew = error !== undefined && error.message !== this.#error?.message
    this.#isRunning = false
    this.#isForgotten = false
    this.#isStandby = isStandby
    this.#error = error
    if (error !== undefined) this.#failures++
    if (isStandby) {
      this.#pendingBytes = 0
      this.#oldest = undefined
    }
    return isNew
  }

  get isRefused(): boolean {
    return this.#error?.code === 'export_refused' && !this.#isForgotten
  }

  forgetRefusal(): void {
    this.#isForgotten = true
  }

  /** The members of the last round that the schedule uses. */
  get result(): RoundResult {
    if (this.#error === undefined) return { retryAfterMs: undefined, refusals: 'none' }
    if (this.#error.code === 'export_refused') return { retryAfterMs: undefined, refusals: 'refused' }
    return { retryAfterMs: this.#error.retryAfterMs ?? 0, refusals: 'none' }
  }

  status(): ExportStatus {
    const lagMs = this.#oldest === undefined ? 0 : Math.max(0, this.#clock.now() - this.#oldest)
    const state = this.#isRunning ? 'exporting' : this.#isStandby ? 'standby' : 'idle'
    return {
      receiver: this.#config.name,
      state: this.#error === undefined ? state : 'retrying',
      records: this.#records,
      pendingBytes: this.#pendingBytes,
      lagMs,
      isBehind: lagMs > this.#config.maxDelayMs,
      failures: this.#failures,
      ...(this.#error === undefined ? {} : { error: this.#error.message }),
    }
  }
}

/** The warning for an operator; undefined while all receivers keep up. */
export function exportWarning(exports: readonly ExportStatus[]): string | undefined {
  const behind = exports.filter(({ isBehind }) => isBehind)
  if (behind.length === 0) return undefined
  return behind
    .map(({ receiver, pendingBytes, lagMs, error }) => {
      const why = error === undefined ? '' : `: ${error}`
      return `the export to ${receiver} is behind: ${pendingBytes} bytes wait, the oldest for ${Math.round(lagMs / 1000)} s${why}`
    })
    .join('; ')
}
