// Keeps the per-agent logs consistent with the daily log: writes to both, repairs and syncs in the background. It
// never makes an append wait or fail.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LockedDirectory } from '../files/directory-lock.js'
import { DirtyMark } from '../files/directory-lock.js'
import { AgentFiles } from './agent-files.js'
import { AgentRepair } from './agent-repair.js'
import type { WriteBatch } from './batch.js'

const SYNC_INTERVAL_MS = 1_000

export class AgentLogs {
  readonly #log: LockedDirectory
  readonly #mark: DirtyMark
  readonly #files: AgentFiles
  readonly #onError: (error: Error) => void
  readonly #days = new Set<string>()
  #working: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  /** @param handles files that stay open. */
  constructor(log: LockedDirectory, handles: number, onError: (error: Error) => void) {
    this.#log = log
    this.#mark = new DirtyMark(log.lock.fd, log.port)
    this.#files = new AgentFiles(log.dir, log.port, handles)
    this.#onError = onError
  }

  /** Schedules a repair if the last holder of the lock died between the logs. Call under the lock. */
  checkMarker(): void {
    const day = this.#mark.day()
    if (day === undefined) return
    this.#mark.clear()
    this.repair(day)
  }

  /**
   * Runs `writeLog`, which writes `batch` to the daily log, and then writes the lines of the agents that it has. Throws
   * only what `writeLog` throws. Call under the lock.
   */
  writeBatch(day: string, batch: WriteBatch, writeLog: () => void): void {
    this.#mark.set(day)
    try {
      writeLog()
    } catch (error) {
      this.#mark.clear()
      throw error
    }
    try {
      this.#files.write(batch.buffer, batch.agents)
      this.#mark.clear()
    } catch (error) {
      this.#report(error)
      // A gap inside a file does not show in the file itself, so the whole day is compared. The mark stays until
      // then: if this process dies first, the next one does it.
      this.repair(day)
    }
    this.#timer ??= setTimeout(() => this.#syncSoon(), SYNC_INTERVAL_MS).unref()
  }

  /** Compares the day's agent files with its log in the background, and repairs them. */
  repair(day: string): void {
    if (this.#closed) return
    this.#days.add(day)
    this.#working ??= this.#work()
  }

  /** Whether no repair of agent files is pending. Call under the lock. */
  get isComplete(): boolean {
    return this.#working === undefined && this.#mark.day() === undefined
  }

  /** Resolves when all pending repairs are complete and synced, including those that a dead writer has left. */
  async idle(): Promise<void> {
    try {
      await this.#log.lock.run(() => this.checkMarker())
    } catch (error) {
      this.#report(error)
    }
    while (this.#working !== undefined) await this.#working
    await this.#files.sync(this.#onError)
  }

  /**
   * Stops a comparison that has found no difference, and finishes one that has; the next opening compares again.
   */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#working !== undefined) await this.#working
    clearTimeout(this.#timer)
    await this.#files.sync(this.#onError)
    this.#files.close()
  }

  async #work(): Promise<void> {
    // The caller may hold the lock.
    await nextTurn()
    for (const day of this.#days) {
      this.#days.delete(day)
      const job = new AgentRepair(this.#log, day, this.#files)
      try {
        while (!this.#closed || job.changed) {
          if (await this.#log.lock.run(() => job.step())) break
          await nextTurn()
        }
      } catch (error) {
        this.#report(error)
      }
    }
    this.#working = undefined
  }

  #syncSoon(): void {
    this.#timer = undefined
    void this.#files.sync(this.#onError)
  }

  #report(error: unknown): void {
    this.#onError(error instanceof Error ? error : new Error(String(error)))
  }
}
