// Group commit: while one batch is being synced the next one fills, so that the cost of a sync is shared
// by every record that came in meanwhile.

import { messageOf } from '@svc/core'
import { AuditError } from '../errors.js'
import type { Batch } from './batch.js'
import type { Health } from './health.js'
import type { Lane, Lanes } from './lanes.js'
import type { LogDirectory, OpenDirectory } from './log-directory.js'

export class GroupCommit {
  readonly #lanes: Lanes
  readonly #directory: LogDirectory
  readonly #health: Health
  readonly #monotonic: () => number
  #running = false

  constructor(lanes: Lanes, directory: LogDirectory, health: Health, monotonic: () => number) {
    this.#lanes = lanes
    this.#directory = directory
    this.#health = health
    this.#monotonic = monotonic
  }

  /** Sees to it that records placed in the lanes get written. Cheap when that is under way. */
  schedule(): void {
    if (this.#running) return
    this.#running = true
    setImmediate(() => void this.#run())
  }

  async #run(): Promise<void> {
    try {
      while (this.#lanes.hasRecords()) {
        const open = this.#directory.opened ?? (await this.#directory.open())
        const section = open.lock.run(() => this.#write(open))
        const written = section instanceof Promise ? await section : section
        await Promise.all(written.map(([lane, batch]) => this.#sync(lane, batch)))
        this.#lanes.trim()
        // Callers that were just told go on now, and their next records join the next batch.
        await new Promise((resolve) => setImmediate(resolve))
      }
    } catch (error) {
      // The directory or its lock: nothing that waits can be written.
      const failure = asAuditError(error)
      for (const [, batch] of this.#takeAll()) this.#lose(batch, failure)
    }
    this.#running = false
    if (this.#lanes.hasRecords()) this.schedule()
  }

  #write(open: OpenDirectory): [Lane, Batch][] {
    const written: [Lane, Batch][] = []
    open.derived.inspect()
    for (const [lane, batch] of this.#lanes.take()) {
      try {
        open.derived.along(lane.day, batch, () => lane.file.write(batch.buffer, batch.length))
        written.push([lane, batch])
      } catch (error) {
        this.#lose(batch, asAuditError(error))
      }
    }
    return written
  }

  async #sync(lane: Lane, batch: Batch): Promise<void> {
    const start = this.#monotonic()
    try {
      await lane.file.sync()
    } catch (error) {
      this.#lose(batch, asAuditError(error))
      return
    }
    this.#health.lastSyncMs = this.#monotonic() - start
    this.#health.durable(batch.records, batch.length)
    batch.resolve()
    this.#lanes.release(batch)
  }

  #lose(batch: Batch, error: AuditError): void {
    this.#health.lost(batch.records, batch.length, error)
    batch.reject(error)
    this.#lanes.release(batch)
  }

  #takeAll(): [Lane, Batch][] {
    const all: [Lane, Batch][] = []
    for (let some = this.#lanes.take(); some.length > 0; some = this.#lanes.take()) all.push(...some)
    return all
  }
}

function asAuditError(error: unknown): AuditError {
  return error instanceof AuditError ? error : new AuditError('write_failed', messageOf(error), error)
}
