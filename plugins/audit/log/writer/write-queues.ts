// One queue per file that is being written: its handle and its waiting batches. Usually there is only today's log;
// the raw payloads, midnight and late records add others.

import type { LogFile } from '../files/log-file.js'
import { dailyLog } from '../format/paths.js'
import { type BatchSize, SharedBatch } from '../signing/shared-batch.js'
import { WriteBatch } from './batch.js'

export interface WriteQueue {
  readonly day: string
  readonly file: LogFile
  /** The last one still accepts records. */
  readonly batches: WriteBatch[]
  /** Batches that could not be signed, written or synced. */
  failures: number
}

export class WriteQueues {
  readonly #pool: BatchPool
  readonly #handles: number
  readonly #make: (path: string) => LogFile
  readonly #queues = new Map<string, WriteQueue>()
  readonly #pending = new Set<WriteBatch>()
  /** The queue of the daily log that was asked for last: nearly all records are of one day. */
  #daily: WriteQueue | undefined

  /** @param make gets the path of a file, relative to the log's directory. */
  constructor(pool: BatchPool, handles: number, make: (path: string) => LogFile) {
    this.#pool = pool
    this.#handles = handles
    this.#make = make
  }

  /** The queue of the log of a day. */
  daily(day: string): WriteQueue {
    if (this.#daily?.day !== day) this.#daily = this.queue(dailyLog(day), day)
    return this.#daily
  }

  /** The queue of the file at `path`, relative to the log's directory. */
  queue(path: string, day: string): WriteQueue {
    const known = this.#queues.get(path)
    if (known !== undefined) return known
    const queue: WriteQueue = { day, file: this.#make(path), batches: [], failures: 0 }
    this.#queues.set(path, queue)
    return queue
  }

  /** The batch of `queue` that accepts records, with at least `room` bytes left. */
  batch(queue: WriteQueue, room: number): WriteBatch {
    const last = queue.batches.at(-1)
    if (last?.hasRoom(room)) return last
    // Signing failed for all its records; an empty batch in front would block the ones behind it.
    if (last?.records === 0) {
      queue.batches.pop()
      this.release(last)
    }
    const batch = new WriteBatch(this.#pool.acquire(room), queue.failures)
    queue.batches.push(batch)
    this.#pending.add(batch)
    return batch
  }

  /** Takes the oldest batch of each queue that has records. */
  take(): [WriteQueue, WriteBatch][] {
    const taken: [WriteQueue, WriteBatch][] = []
    for (const queue of this.#queues.values()) {
      const batch = queue.batches[0]
      if (batch === undefined || batch.records === 0) continue
      queue.batches.shift()
      taken.push([queue, batch])
    }
    return taken
  }

  /** Whether the oldest batch of a queue has at least so many bytes. */
  hasBatchOf(bytes: number): boolean {
    for (const queue of this.#queues.values()) if ((queue.batches[0]?.length ?? 0) >= bytes) return true
    return false
  }

  /** Batches with records that are neither written nor failed. */
  pending(): WriteBatch[] {
    return [...this.#pending].filter((batch) => batch.records > 0)
  }

  /** Call after the promise of `batch` is settled; its memory is reused. */
  release(batch: WriteBatch): void {
    this.#pending.delete(batch)
    this.#pool.release(batch.memory)
  }

  /** Closes the files of the oldest days beyond the limit. Call while nothing is being synced. */
  closeOldest(): void {
    if (this.#queues.size <= this.#handles) return
    const oldestFirst = [...this.#queues].sort(([, a], [, b]) => (a.day < b.day ? -1 : 1))
    for (const [path, queue] of oldestFirst) {
      if (this.#queues.size <= this.#handles) return
      if (queue.batches.length > 0) continue
      queue.file.close()
      this.#queues.delete(path)
      if (queue === this.#daily) this.#daily = undefined
    }
  }

  close(): void {
    for (const queue of this.#queues.values()) queue.file.close()
    this.#queues.clear()
    this.#daily = undefined
  }
}

const MAX_SPARE = 2
// Nearly all canonical envelopes are longer; a batch of shorter ones ends earlier.
const BYTES_PER_MESSAGE = 384

/** The size of a batch with `bytes` for lines. */
export function batchSize(bytes: number): BatchSize {
  return { bytes, messages: Math.ceil(bytes / BYTES_PER_MESSAGE) }
}

/** Memory for batches: first what the signing thread shares, then memory of this thread only. */
export class BatchPool {
  readonly #size: BatchSize
  readonly #shared: SharedBatch[]
  readonly #spare: SharedBatch[] = []

  constructor(batchBytes: number, shared: readonly SharedBatch[]) {
    this.#size = batchSize(batchBytes)
    this.#shared = [...shared]
  }

  /** Empty memory with at least `room` bytes for lines. */
  acquire(room: number): SharedBatch {
    if (room > this.#size.bytes) return SharedBatch.local(batchSize(room))
    for (const [index, memory] of this.#shared.entries()) {
      if (!memory.isIdle) continue
      this.#shared.splice(index, 1)
      return memory
    }
    return this.#spare.pop() ?? SharedBatch.local(this.#size)
  }

  /** Returns the memory to the pool; nothing may read its bytes any more. */
  release(memory: SharedBatch): void {
    memory.empty()
    if (memory.isThreadShared) this.#shared.push(memory)
    else if (memory.bytes.length === this.#size.bytes && this.#spare.length < MAX_SPARE)
      this.#spare.push(memory)
  }
}
