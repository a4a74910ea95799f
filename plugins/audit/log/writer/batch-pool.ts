// Where batches get their memory: what the signing thread shares first, then memory of this thread's own.

import { Slot, type SlotSize } from '../signing/shared-batch.js'

const SPARES = 2
// Canonical envelopes are longer than that nearly always; a batch of shorter ones ends earlier.
const BYTES_PER_MESSAGE = 384

/** The size of a slot with `bytes` for lines. */
export function slotSize(bytes: number): SlotSize {
  return { bytes, messages: Math.ceil(bytes / BYTES_PER_MESSAGE) }
}

export class Slots {
  readonly #size: SlotSize
  readonly #shared: Slot[]
  readonly #spare: Slot[] = []

  constructor(batchBytes: number, shared: readonly Slot[]) {
    this.#size = slotSize(batchBytes)
    this.#shared = [...shared]
  }

  /** An empty slot with at least `room` bytes for lines. */
  take(room: number): Slot {
    if (room > this.#size.bytes) return Slot.alone(slotSize(room))
    const idle = this.#shared.findIndex((slot) => slot.isIdle)
    const slot = idle < 0 ? this.#spare.pop() : this.#shared.splice(idle, 1)[0]
    return slot ?? Slot.alone(this.#size)
  }

  /** Takes the slot back, whose bytes nobody reads any more. */
  give(slot: Slot): void {
    slot.empty()
    if (slot.isShared) this.#shared.push(slot)
    else if (slot.bytes.length === this.#size.bytes && this.#spare.length < SPARES) this.#spare.push(slot)
  }
}
