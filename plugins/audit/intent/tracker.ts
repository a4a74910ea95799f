// Write-ahead for the audit stage: the journal of this process, and what became of those of dead ones.

import type { Logger } from '@svc/core'
import type { FileSystem } from '../log/files/file-system.js'
import type { AuditEnvelope } from '../log/format/envelope.js'
import type { Intent } from './entry.js'
import { IntentJournal } from './journal.js'
import { Orphans } from './recovery.js'

const SWEEP_MS = 10_000

export interface IntentParts {
  /** The directory of the log. */
  readonly dir: string
  readonly port: FileSystem
  readonly logger: Logger
  /** Of the key that signs now; null where the writer signs with a key of its own. */
  readonly keyId: string | null
  append(record: AuditEnvelope): Promise<void>
}

export class Intents {
  readonly #logger: Logger
  readonly #journal: IntentJournal
  readonly #orphans: Orphans
  /** Their calls have ended, but no record of them could be made durable. */
  readonly #abandoned = new Set<Intent>()
  #timer: NodeJS.Timeout | undefined
  #sweeping: Promise<void> | undefined

  constructor(parts: IntentParts) {
    this.#logger = parts.logger
    this.#journal = new IntentJournal(parts.dir, parts.port)
    this.#orphans = new Orphans(parts)
  }

  /** Records what dead processes left, now and from time to time. Call when the log is open; safe twice. */
  async start(): Promise<void> {
    if (this.#timer !== undefined) return
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS).unref()
    await this.#sweep()
  }

  /** Why intents cannot be written, while that is so. */
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

  /** The call has ended and its record could not be made durable: the next sweep sees to it. */
  abandon(intent: Intent): void {
    this.#abandoned.add(intent)
  }

  /** No more records are made. Call before the log closes. */
  async pause(): Promise<void> {
    clearInterval(this.#timer)
    await this.#sweeping
  }

  /** Call when the log has closed: from then on another process may take over what is still open. */
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
      await this.#orphans.adopt()
      const abandoned = [...this.#abandoned]
      await this.#orphans.record(abandoned)
      for (const intent of abandoned) {
        this.#abandoned.delete(intent)
        this.#journal.end(intent)
      }
      await this.#journal.probe()
    } catch (err) {
      // They stay where they are for the next sweep.
      this.#logger.error({ err }, 'calls whose outcome is unknown could not be recorded yet')
    }
  }
}
