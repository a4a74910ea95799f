// One lane per file being written: its handle and the batches that wait for it. Nearly always there is a
// single lane, today's log; the raw dataset, midnight and late records add others.

import { join } from 'node:path'
import type { LogFile } from '../files/log-file.js'
import { Batch } from './batch.js'
import type { Slots } from './batch-pool.js'

export interface Lane {
  readonly day: string
  readonly file: LogFile
  /** The last one is still being filled. */
  readonly batches: Batch[]
}

export class Lanes {
  readonly #dir: string
  readonly #slots: Slots
  readonly #handles: number
  readonly #make: (path: string) => LogFile
  readonly #lanes = new Map<string, Lane>()
  readonly #outstanding = new Set<Batch>()

  constructor(dir: string, slots: Slots, handles: number, make: (path: string) => LogFile) {
    this.#dir = dir
    this.#slots = slots
    this.#handles = handles
    this.#make = make
  }

  /** The lane of the file at `path`, relative to the log's directory. */
  of(path: string, day: string): Lane {
    const known = this.#lanes.get(path)
    if (known !== undefined) return known
    const lane: Lane = { day, file: this.#make(join(this.#dir, path)), batches: [] }
    this.#lanes.set(path, lane)
    return lane
  }

  /** The batch of `lane` being filled, with at least `room` bytes left. */
  batch(lane: Lane, room: number): Batch {
    const last = lane.batches.at(-1)
    if (last?.has(room)) return last
    // Signing failed for all it was to hold; an empty batch in front would hide those behind it.
    if (last?.records === 0) {
      lane.batches.pop()
      this.release(last)
    }
    const batch = new Batch(this.#slots.take(room))
    lane.batches.push(batch)
    this.#outstanding.add(batch)
    return batch
  }

  /** Takes the oldest batch of each lane that has records. */
  take(): [Lane, Batch][] {
    const taken: [Lane, Batch][] = []
    for (const lane of this.#lanes.values()) {
      const batch = lane.batches[0]
      if (batch === undefined || batch.records === 0) continue
      lane.batches.shift()
      taken.push([lane, batch])
    }
    return taken
  }

  hasRecords(): boolean {
    for (const lane of this.#lanes.values()) if ((lane.batches[0]?.records ?? 0) > 0) return true
    return false
  }

  /** Batches with records whose fate is open. */
  outstanding(): Batch[] {
    return [...this.#outstanding].filter((batch) => batch.records > 0)
  }

  /** Ends a batch's life after its promise is settled; its memory serves again. */
  release(batch: Batch): void {
    this.#outstanding.delete(batch)
    this.#slots.give(batch.slot)
  }

  /** Closes the files of the oldest days, beyond the limit. Call while nothing is being synced. */
  trim(): void {
    if (this.#lanes.size <= this.#handles) return
    const oldestFirst = [...this.#lanes].sort(([, a], [, b]) => (a.day < b.day ? -1 : 1))
    for (const [path, lane] of oldestFirst) {
      if (this.#lanes.size <= this.#handles) return
      if (lane.batches.length > 0) continue
      lane.file.close()
      this.#lanes.delete(path)
    }
  }

  close(): void {
    for (const lane of this.#lanes.values()) lane.file.close()
    this.#lanes.clear()
  }
}
