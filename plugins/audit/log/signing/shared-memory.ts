// The memory that the writer and its signing thread share: control words to start and wake the thread, then the
// batches.

import { type BatchSize, SharedBatch, sharedBatchBytes } from './shared-batch.js'

const BEGUN = 0
const SIGNAL = 16
const ASLEEP = 32
const CONTROL_WORDS = 48
const CONTROL_BYTES = CONTROL_WORDS * 4

/**
 * A new thread signs this first, so that a thread with a wrong key never signs a record. No record has this form.
 */
export const SIGNING_PROBE: Uint8Array = Buffer.from('svc-audit signing thread, probe of its key\n')

export interface SharedMemorySize extends BatchSize {
  readonly batches: number
}

export function sharedBytes(size: SharedMemorySize): number {
  return CONTROL_BYTES + size.batches * sharedBatchBytes(size)
}

export class SharedMemory {
  readonly batches: readonly SharedBatch[]
  readonly #words: Int32Array

  /** @param memory has `sharedBytes(size)` bytes. */
  constructor(memory: SharedArrayBuffer, size: SharedMemorySize) {
    this.#words = new Int32Array(memory, 0, CONTROL_WORDS)
    this.batches = Array.from(
      { length: size.batches },
      (_, i) => new SharedBatch(memory, CONTROL_BYTES + i * sharedBatchBytes(size), size),
    )
  }

  /** Lets the thread start signing. */
  begin(): void {
    Atomics.store(this.#words, BEGUN, 1)
    Atomics.notify(this.#words, BEGUN)
  }

  /** Announces new messages. A sleeping thread is woken only if `ifAsleep`, because waking costs about 4 µs. */
  signal(ifAsleep: boolean): void {
    Atomics.add(this.#words, SIGNAL, 1)
    if (!ifAsleep || Atomics.exchange(this.#words, ASLEEP, 0) === 0) return
    Atomics.notify(this.#words, SIGNAL)
  }

  /** Runs on the thread: after `begin`, signs the messages of all batches with `sign` forever. */
  serve(sign: (message: Uint8Array) => Uint8Array): never {
    Atomics.wait(this.#words, BEGUN, 0)
    for (;;) {
      const seen = Atomics.load(this.#words, SIGNAL)
      let any = false
      for (const batch of this.batches) any = batch.signOpen(sign) || any
      if (any) continue
      Atomics.store(this.#words, ASLEEP, 1)
      // Returns immediately when a message was announced since `seen`.
      Atomics.wait(this.#words, SIGNAL, seen)
    }
  }
}
