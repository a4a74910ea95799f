// What the writer and its signing thread share: the slots, and before them the words by which the one lets the
// other begin, and wakes it.

import { Slot, type SlotSize, slotBytes } from './shared-batch.js'

const BEGUN = 0
const SIGNAL = 16
const ASLEEP = 32
const CONTROL_WORDS = 48
const CONTROL_BYTES = CONTROL_WORDS * 4

/** What a new thread signs first, so that one with a wrong key never signs a record. No record reads like it. */
export const SIGNING_PROBE: Uint8Array = Buffer.from('svc-audit signing thread, probe of its key\n')

export interface SharedSize extends SlotSize {
  readonly slots: number
}

export function sharedBytes(size: SharedSize): number {
  return CONTROL_BYTES + size.slots * slotBytes(size)
}

export class SharedMemory {
  readonly slots: readonly Slot[]
  readonly #words: Int32Array

  /** @param memory has `sharedBytes(size)` bytes. */
  constructor(memory: SharedArrayBuffer, size: SharedSize) {
    this.#words = new Int32Array(memory, 0, CONTROL_WORDS)
    this.slots = Array.from(
      { length: size.slots },
      (_, i) => new Slot(memory, CONTROL_BYTES + i * slotBytes(size), size),
    )
  }

  /** Lets the thread begin. */
  begin(): void {
    Atomics.store(this.#words, BEGUN, 1)
    Atomics.notify(this.#words, BEGUN)
  }

  /** Says that there is more to sign; a thread that sleeps is woken only `ifAsleep`, which costs some 4 µs. */
  signal(ifAsleep: boolean): void {
    Atomics.add(this.#words, SIGNAL, 1)
    if (!ifAsleep || Atomics.exchange(this.#words, ASLEEP, 0) === 0) return
    Atomics.notify(this.#words, SIGNAL)
  }

  /** The thread's part: once it may begin, signs with `sign` whatever is put into the slots, for ever. */
  serve(sign: (message: Uint8Array) => Uint8Array): never {
    Atomics.wait(this.#words, BEGUN, 0)
    for (;;) {
      const seen = Atomics.load(this.#words, SIGNAL)
      let any = false
      for (const slot of this.slots) any = slot.signOpen(sign) || any
      if (any) continue
      Atomics.store(this.#words, ASLEEP, 1)
      // Returns at once when something was signalled since `seen`.
      Atomics.wait(this.#words, SIGNAL, seen)
    }
  }
}
