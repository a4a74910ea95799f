// Write-ahead intents of the audit stage: the journal of this process, and recovery of the journals of dead ones.

import type { Clock } from '@svc/core'
import type { AuditEnvelope } from '../log/format/envelope.js'
import type { Intent } from './entry.js'
import { IntentJournal } from './journal.js'
import { type IntentOptions, IntentRecovery, type RefusedJournal } from './recovery.js'

const SWEEP_INTERVAL_MS = 10_000
/** Refused journals get one record in this time, whatever their number. */
const REFUSED_INTERVAL_MS = 60_000
const MAX_NAMED = 10

export interface TrackerOptions extends IntentOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** The record of journals that were refused. */
  refusedRecord(count: number, detail: string): AuditEnvelope
}

export class IntentTracker {
  readonly #options: TrackerOptions
  readonly #journal: IntentJournal
  readonly #recovery: IntentRecovery
  /** Intents of ended calls whose record could not be made durable. */
  readonly #abandoned = new Set<Intent>()
  /** Refused journals without a record, of which the first are named. */
  #refused = { count: 0, named: [] as RefusedJournal[] }
  #refusedAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #sweeping: Promise<void> | undefined

  constructor(options: TrackerOptions) {
    this.#options = options
    this.#journal = new IntentJournal(options.dir, options.port, options.log)
    this.#recovery = new IntentRecovery(options)
  }

  /**
   * Recovers intents of dead processes, now and every 10 seconds. Call when the log is open; safe to call twice.
   */
  async start(): Promise<void> {
    if (this.#timer !== undefined) return
    this.#timer = setInterval(() => void this.sweep(), SWEEP_INTERVAL_MS).unref()
    await this.sweep()
  }

  /** Why intents cannot be written at present. */
  get failure(): Error | undefined {
    return this.#journal.failure
  }

  /** Resolves when the intent is on disk; see `IntentJournal.begin`. */
  begin(record: AuditEnvelope): Promise<Intent> {
    return this.#journal.begin(record)
  }

  /** The call's record is on disk. */
  end(intent: Intent): void {
    this.#journal.end(intent)
  }

  /** The call has ended without a durable record: the next sweep writes it. */
  abandon(intent: Intent): void {
    this.#abandoned.add(intent)
  }

  /** Stops recovery. Call before the log closes. */
  async pause(): Promise<void> {
    clearInterval(this.#timer)
    await this.#sweeping
    await this.#reporting(() => this.#recordRefused())
  }

  /** Call after the log has closed: from then on another process may recover the open intents. */
  async close(): Promise<void> {
    await this.pause()
    await this.#journal.close()
  }

  /** Recovers now what can be. Errors are logged. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweepOnce().finally(() => {
      this.#sweeping = undefined
    })
    return this.#sweeping
  }

  async #sweepOnce(): Promise<void> {
    await this.#reporting(async () => {
      const { refused, failures } = await this.#recovery.recover()
      this.#refuse(refused)
      if (failures.length > 0) throw failures[0]
    })
    await this.#reporting(async () => {
      const isDue = this.#options.clock.monotonic() - this.#refusedAt >= REFUSED_INTERVAL_MS
      if (isDue) await this.#recordRefused()
    })
    await this.#reporting(async () => {
      const abandoned = [...this.#abandoned]
      const { refused } = await this.#recovery.record(abandoned)
      for (const intent of abandoned) {
        this.#abandoned.delete(intent)
        this.#journal.end(intent)
      }
      if (refused !== undefined) throw new Error(`the log ${refused}`)
      await this.#journal.probe()
    })
  }

  /** Logs an error of `work`; the next sweep retries. */
  async #reporting(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.#options.logger.error({ err }, 'calls whose outcome is unknown could not be recorded yet')
    }
  }

  #refuse(refused: readonly RefusedJournal[]): void {
    if (refused.length === 0) return
    const { count, named } = this.#refused
    this.#refused = { count: count + refused.length, named: [...named, ...refused].slice(0, MAX_NAMED) }
    const what =
      'files among the journals of intents are not of a process of this log, and were moved to intents/refused'
    this.#options.logger.error({ files: refused.length, refused: refused.slice(0, MAX_NAMED) }, what)
  }

  async #recordRefused(): Promise<void> {
    const { count, named } = this.#refused
    if (count === 0) return
    this.#refusedAt = this.#options.clock.monotonic()
    const detail = named.map(({ file, reason }) => `${file}: ${reason}`).join('; ')
    await this.#options.append(this.#options.refusedRecord(count, detail))
    this.#refused = { count: 0, named: [] }
  }
}
