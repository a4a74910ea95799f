// Write-ahead intents of the audit stage: the journal of this process, and recovery of the journals of dead ones.

import type { Logger } from '@svc/core'
import type { AuditEnvelope } from '../log/format/envelope.js'
import type { Intent } from './entry.js'
import { IntentJournal } from './journal.js'
import { type IntentParts, IntentRecovery } from './recovery.js'

const SWEEP_INTERVAL_MS = 10_000

export class IntentTracker {
  readonly #logger: Logger
  readonly #journal: IntentJournal
  readonly #recovery: IntentRecovery
  /** Intents of ended calls whose record could not be made durable. */
  readonly #abandoned = new Set<Intent>()
  #timer: NodeJS.Timeout | undefined
  #sweeping: Promise<void> | undefined

  constructor(parts: IntentParts) {
    this.#logger = parts.logger
    this.#journal = new IntentJournal(parts.dir, parts.port)
    this.#recovery = new IntentRecovery(parts)
  }

  /**
   * Recovers intents of dead processes, now and every 10 seconds. Call when the log is open; safe to call twice.
   */
  async start(): Promise<void> {
    if (this.#timer !== undefined) return
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_INTERVAL_MS).unref()
    await this.#sweep()
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
  }

  /** Call after the log has closed: from then on another process may recover the open intents. */
  async close(): Promise<void> {
    await this.pause()
    await this.#journal.close()
  }

  #sweep(): Promise<void> {
    this.#sweeping ??= this.#sweepOnce().finally(() => {
      this.#sweeping = undefined
    })
    return this.#sweeping
  }

  async #sweepOnce(): Promise<void> {
    try {
      await this.#recovery.recover()
      const abandoned = [...this.#abandoned]
      await this.#recovery.record(abandoned)
      for (const intent of abandoned) {
        this.#abandoned.delete(intent)
        this.#journal.end(intent)
      }
      await this.#journal.probe()
    } catch (err) {
      // The next sweep retries.
      this.#logger.error({ err }, 'calls whose outcome is unknown could not be recorded yet')
    }
  }
}
