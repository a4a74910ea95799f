// Memory for batches: first what the signing thread shares, then memory of this thread only.

import { type BatchSize, SharedBatch } from '../signing/shared-batch.js'

const MAX_SPARE = 2
// Nearly all canonical envelopes are longer; a batch of shorter ones ends earlier.
const BYTES_PER_MESSAGE = 384

/** The size of a batch with `bytes` for lines. */
export function batchSize(bytes: number): BatchSize {
  return { bytes, messages: Math.ceil(bytes / BYTES_PER_MESSAGE) }
}

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
    const idle = this.#shared.findIndex((memory) => memory.isIdle)
    const memory = idle < 0 ? this.#spare.pop() : this.#shared.splice(idle, 1)[0]
    return memory ?? SharedBatch.local(this.#size)
  }

  /** Returns the memory to the pool; nothing may read its bytes any more. */
  release(memory: SharedBatch): void {
    memory.empty()
    if (memory.isThreadShared) this.#shared.push(memory)
    else if (memory.bytes.length === this.#size.bytes && this.#spare.length < MAX_SPARE)
      this.#spare.push(memory)
  }
}
