// Group commit: while one batch is being synced the next one fills, so that the cost of a sync is shared
// by every record that came in meanwhile.

import { messageOf } from '@svc/core/json'
import { AuditError, signerFailure } from '../format/errors.js'
import type { Batch } from './batch.js'
import type { LogDirectory, OpenDirectory } from './log-directory.js'
import type { Health } from './status.js'
import type { Lane, Lanes } from './write-queues.js'

// From here on a batch is written without waiting for the turn of the event loop to end: its sync then
// runs while the rest of a burst is still being signed.
const EAGER_BYTES = 16_384

type Written = [Lane, Batch][]

export interface CommitParts {
  readonly lanes: Lanes
  readonly directory: LogDirectory
  readonly health: Health
  /** Milliseconds. */
  readonly monotonic: () => number
  /** Signs the records that were added unsigned. */
  readonly sign: (message: Uint8Array) => Uint8Array
}

export class GroupCommit {
  readonly #lanes: Lanes
  readonly #directory: LogDirectory
  readonly #health: Health
  readonly #monotonic: () => number
  readonly #sign: (message: Uint8Array) => Uint8Array
  #state: 'idle' | 'scheduled' | 'running' = 'idle'

  constructor({ lanes, directory, health, monotonic, sign }: CommitParts) {
    this.#lanes = lanes
    this.#directory = directory
    this.#health = health
    this.#monotonic = monotonic
    this.#sign = sign
  }

  /** Sees to it that `batch`, which has just grown, gets written. Cheap when that is under way. */
  schedule(batch: Batch): void {
    if (this.#state === 'running') return
    if (this.#state === 'idle') {
      this.#state = 'scheduled'
      setImmediate(() => this.#begin())
    }
    if (batch.length >= EAGER_BYTES) this.#begin()
  }

  #begin(): void {
    if (this.#state !== 'scheduled') return
    this.#state = 'running'
    void this.#run()
  }

  async #run(): Promise<void> {
    try {
      const open = this.#directory.opened ?? (await this.#directory.open())
      const first = this.#next(open)
      let written = first instanceof Promise ? await first : first
      while (written.length > 0) {
        const errors = await Promise.all(written.map(([lane]) => this.#sync(lane)))
        this.#lanes.trim()
        let next: Written | Promise<Written> = []
        try {
          // What gathered meanwhile is written before the callers are told, so that they sign their next
          // records while it is being synced, instead of everyone waiting for the same sync.
          if (this.#lanes.hasRecords()) next = this.#next(open)
        } finally {
          for (const [index, one] of written.entries()) this.#settle(one, errors[index])
        }
        written = next instanceof Promise ? await next : next
      }
    } catch (error) {
      // The directory or its lock: nothing that waits can be written.
      const failure = asAuditError(error)
      for (const one of this.#takeAll()) this.#settle(one, failure)
    }
    this.#state = 'idle'
    const waiting = this.#lanes.outstanding()[0]
    if (waiting !== undefined) this.schedule(waiting)
  }

  /** Signs what waits, then writes it under the lock. */
  #next(open: OpenDirectory): Written | Promise<Written> {
    const signed = this.#takeSigned()
    const failed = (error: unknown) => {
      for (const one of signed) this.#settle(one, asAuditError(error))
      throw error
    }
    try {
      const written = open.lock.run(() => this.#write(open, signed))
      return written instanceof Promise ? written.catch(failed) : written
    } catch (error) {
      return failed(error)
    }
  }

  /** Before the lock is taken: other processes must not wait for signatures. */
  #takeSigned(): Written {
    return this.#lanes.take().filter(([, batch]) => {
      if (batch.unsigned === 0) return true
      try {
        this.#health.signedByThread += batch.sign(this.#sign)
        this.#health.signed()
        return true
      } catch (error) {
        const failure = signerFailure(error)
        this.#health.unsigned(batch.records, batch.length, failure)
        batch.reject(failure)
        this.#lanes.release(batch)
        return false
      }
    })
  }

  #write(open: OpenDirectory, signed: Written): Written {
    const written: Written = []
    open.derived.inspect()
    for (const [lane, batch] of signed) {
      try {
        open.derived.along(lane.day, batch, () => lane.file.write(batch.buffer, batch.length))
        written.push([lane, batch])
      } catch (error) {
        this.#settle([lane, batch], asAuditError(error))
      }
    }
    return written
  }

  async #sync(lane: Lane): Promise<AuditError | undefined> {
    const start = this.#monotonic()
    try {
      await lane.file.sync()
    } catch (error) {
      return asAuditError(error)
    }
    this.#health.lastSyncMs = this.#monotonic() - start
    return undefined
  }

  #settle([lane, batch]: Written[number], error: AuditError | undefined): void {
    if (error === undefined) {
      this.#health.durable(batch.records, batch.length, lane.day)
      batch.resolve()
    } else {
      this.#health.lost(batch.records, batch.length, error)
      batch.reject(error)
    }
    this.#lanes.release(batch)
  }

  #takeAll(): Written {
    const all: Written = []
    for (let some = this.#lanes.take(); some.length > 0; some = this.#lanes.take()) all.push(...some)
    return all
  }
}

function asAuditError(error: unknown): AuditError {
  return error instanceof AuditError ? error : new AuditError('write_failed', messageOf(error), error)
}
