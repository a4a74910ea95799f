// Keeps the per-agent logs in step with the daily log: writes them along, completes them in the
// background, syncs them now and then. None of it makes an append wait or fail.

import type { DirectoryLock } from '../files/directory-lock.js'
import type { FileSystem } from '../files/file-system.js'
import { AgentFiles } from './agent-files.js'
import { AgentCompletion } from './agent-repair.js'
import type { Batch } from './batch.js'
import { SectionMark } from './dirty-marker.js'

const SYNC_EVERY_MS = 1_000

export class DerivedLogs {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #lock: DirectoryLock
  readonly #mark: SectionMark
  readonly #files: AgentFiles
  readonly #onError: (error: Error) => void
  readonly #days = new Set<string>()
  #working: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(
    dir: string,
    port: FileSystem,
    lock: DirectoryLock,
    handles: number,
    onError: (error: Error) => void,
  ) {
    this.#dir = dir
    this.#port = port
    this.#lock = lock
    this.#mark = new SectionMark(lock.fd, port)
    this.#files = new AgentFiles(dir, port, handles)
    this.#onError = onError
  }

  /** Looks whether the lock's last holder died between the logs. Call under the lock. */
  inspect(): void {
    const day = this.#mark.left()
    if (day === undefined) return
    this.#mark.clear()
    this.complete(day)
  }

  /**
   * Runs `writeLog`, which writes `batch` to the daily log, and then writes its agents' lines. Throws
   * what `writeLog` throws, and nothing else. Call under the lock.
   */
  along(day: string, batch: Batch, writeLog: () => void): void {
    if (batch.agents.length === 0) {
      writeLog()
      return
    }
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
      // A gap in the middle cannot be told from the file itself, so the day is compared anew. The mark
      // stays until then: should this process die first, the next one does it.
      this.complete(day)
    }
    this.#timer ??= setTimeout(() => this.#syncSoon(), SYNC_EVERY_MS).unref()
  }

  /** Compares the day's agent files with its log in the background, and completes them. */
  complete(day: string): void {
    if (this.#closed) return
    this.#days.add(day)
    this.#working ??= this.#work()
  }

  /** Whether the agents' files say what the daily logs say, as far as is known. Call under the lock. */
  get isComplete(): boolean {
    return this.#working === undefined && this.#mark.left() === undefined
  }

  /** Resolves when everything begun is complete and synced. */
  async settled(): Promise<void> {
    while (this.#working !== undefined) await this.#working
    await this.#files.sync(this.#onError)
  }

  /** Ends a comparison that has found nothing to mend, finishes one that has; the next opening compares anew. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#working !== undefined) await this.#working
    clearTimeout(this.#timer)
    await this.#files.sync(this.#onError)
    this.#files.close()
  }

  async #work(): Promise<void> {
    // The caller may hold the lock.
    await immediate()
    for (const day of this.#days) {
      this.#days.delete(day)
      const job = new AgentCompletion(this.#dir, day, this.#port, this.#files)
      try {
        while (!this.#closed || job.changed) {
          if (await this.#lock.run(() => job.step())) break
          await immediate()
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

function immediate(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
