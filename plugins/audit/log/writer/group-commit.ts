// Group commit: a batch is written when no more records come, and while it is being synced, the next one fills, so that
// all records of a batch share the cost of one write and one sync. If the last write had a single record, the next one is
// likely to be single too, and waiting would only delay it: it is written at once.

import { messageOf } from '@svc/core/json'
import { AuditError, signerFailure } from '../format/errors.js'
import type { WriteBatch, WriteQueue, WriteQueues } from './batch.js'
import type { LogDirectory } from './log-directory.js'
import type { OpenDirectory } from './open-directory.js'
import type { StatusTracker } from './status.js'

// A batch of this size is written before the event loop turn ends, so that its sync runs while the rest of a burst
// is being signed.
const EAGER_BYTES = 32_768
// A batch is written when this many turns of the event loop have brought no record: the calls of a burst end in
// neighbouring turns.
const QUIET_TURNS = 3
// A steady stream of records has no quiet turns.
const MAX_WAIT_MS = 2

type QueuedBatch = [WriteQueue, WriteBatch]

interface CommitOptions {
  readonly queues: WriteQueues
  readonly directory: LogDirectory
  readonly status: StatusTracker
  /** Milliseconds. */
  readonly monotonic: () => number
  /** Signs the records that were added unsigned. */
  readonly sign: (message: Uint8Array) => Uint8Array
}

export class GroupCommit {
  readonly #options: CommitOptions
  #state: 'idle' | 'scheduled' | 'running' = 'idle'
  #quietTurns = 0
  /** The latest time at which a scheduled write begins. */
  #dueAt = 0
  #nextTurn: NodeJS.Immediate | undefined
  /** Whether the last write had a single record. */
  #wasSingle = false

  constructor(options: CommitOptions) {
    this.#options = options
  }

  /** Schedules the write of `batch`, which has just grown. Cheap when one is scheduled already. */
  schedule(batch: WriteBatch): void {
    if (this.#state === 'running') return
    if (this.#wasSingle || batch.length >= EAGER_BYTES) {
      this.#begin()
      return
    }
    this.#quietTurns = 0
    if (this.#state === 'scheduled') return
    this.#state = 'scheduled'
    this.#dueAt = this.#options.monotonic() + MAX_WAIT_MS
    this.#nextTurn = setImmediate(this.#onTurn)
  }

  readonly #onTurn = (): void => {
    this.#quietTurns++
    if (this.#quietTurns >= QUIET_TURNS || this.#options.monotonic() >= this.#dueAt) this.#begin()
    else this.#nextTurn = setImmediate(this.#onTurn)
  }

  #begin(): void {
    clearImmediate(this.#nextTurn)
    this.#state = 'running'
    void this.#run()
  }

  async #run(): Promise<void> {
    try {
      const open = this.#options.directory.opened ?? (await this.#options.directory.open())
      const first = this.#next(open)
      let written = first instanceof Promise ? await first : first
      while (written.length > 0) {
        this.#wasSingle = written.length === 1 && written[0]?.[1].records === 1
        const errors = await Promise.all(written.map((one) => this.#sync(one)))
        this.#options.queues.closeOldest()
        let next: QueuedBatch[] | Promise<QueuedBatch[]> = []
        try {
          // A full batch is written before the promises of the last ones resolve: callers then sign their next
          // records during the sync instead of waiting for the same one.
          if (this.#options.queues.hasBatchOf(EAGER_BYTES)) next = this.#next(open)
        } finally {
          for (const [index, one] of written.entries()) this.#settle(one, errors[index])
        }
        written = next instanceof Promise ? await next : next
      }
    } catch (error) {
      // The directory or its lock failed: no waiting record can be written.
      const failure = asAuditError(error)
      for (const one of this.#takeAll()) this.#settle(one, failure)
    }
    this.#state = 'idle'
    const waiting = this.#options.queues.pending()[0]
    if (waiting !== undefined) this.schedule(waiting)
  }

  /** Signs the waiting batches, then writes them under the lock. */
  #next(open: OpenDirectory): QueuedBatch[] | Promise<QueuedBatch[]> {
    const signed = this.#takeSigned()
    try {
      const written = open.lock.run(() => this.#write(open, signed))
      return written instanceof Promise
        ? written.catch((error: unknown) => this.#failAll(signed, error))
        : written
    } catch (error) {
      return this.#failAll(signed, error)
    }
  }

  #failAll(batches: readonly QueuedBatch[], error: unknown): never {
    for (const one of batches) this.#settle(one, asAuditError(error))
    throw error
  }

  /** Runs before the lock is taken, because other processes should not wait for signatures. */
  #takeSigned(): QueuedBatch[] {
    const { status, queues, sign } = this.#options
    const signed: QueuedBatch[] = []
    for (const one of queues.take()) {
      const [queue, batch] = one
      // Its records do not name the numbers lost with an earlier batch, and would be written after the gap.
      if (batch.numbers.length > 0 && batch.failuresBefore !== queue.failures) {
        this.#settle(one, new AuditError('write_failed', 'records before it could not be written'))
        continue
      }
      try {
        if (batch.memory.count > 0) {
          status.signedByThread += batch.sign(sign)
          status.signerSucceeded()
        }
        signed.push(one)
      } catch (error) {
        const failure = signerFailure(error)
        markLost(one)
        status.batchUnsigned(batch.records, batch.length, failure)
        batch.reject(failure)
        queues.release(batch)
      }
    }
    return signed
  }

  #write(open: OpenDirectory, signed: QueuedBatch[]): QueuedBatch[] {
    const written: QueuedBatch[] = []
    open.agentLogs.checkMarker()
    for (const [queue, batch] of signed) {
      try {
        if (batch.agents.length === 0) queue.file.write(batch.buffer, batch.length)
        else open.agentLogs.writeBatch(queue.day, batch, () => queue.file.write(batch.buffer, batch.length))
        written.push([queue, batch])
      } catch (error) {
        const failure = asAuditError(error)
        if (failure.code === 'log_changed') open.sealer?.stateDamagedDays()
        this.#settle([queue, batch], failure)
      }
    }
    return written
  }

  async #sync([queue, batch]: QueuedBatch): Promise<AuditError | undefined> {
    const start = this.#options.monotonic()
    try {
      await queue.file.sync()
    } catch (error) {
      // Its lines are in the file, so that later batches follow no gap unless the disk loses them.
      batch.markLost()
      return asAuditError(error)
    }
    this.#options.status.lastSyncMs = this.#options.monotonic() - start
    return undefined
  }

  #settle([queue, batch]: QueuedBatch, error: AuditError | undefined): void {
    if (error === undefined) {
      this.#options.status.batchWritten(batch.records, batch.length, queue.day)
      batch.resolve()
    } else {
      markLost([queue, batch])
      this.#options.status.batchFailed(batch.records, batch.length, error)
      batch.reject(error)
    }
    this.#options.queues.release(batch)
  }

  #takeAll(): QueuedBatch[] {
    const all: QueuedBatch[] = []
    for (let some = this.#options.queues.take(); some.length > 0; some = this.#options.queues.take())
      all.push(...some)
    return all
  }
}

/** Call before anything else is written to the file: the next line has to name the numbers; batches already begun do not. */
function markLost([queue, batch]: QueuedBatch): void {
  if (batch.isLost) return
  queue.failures++
  batch.markLost()
}

function asAuditError(error: unknown): AuditError {
  return error instanceof AuditError ? error : new AuditError('write_failed', messageOf(error), error)
}
