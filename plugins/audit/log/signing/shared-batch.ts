// The memory of one batch: lines in the making, and the messages among them that are still to be signed. It can
// be shared with a thread that signs them too. Whoever takes a message first signs it, so nobody waits for
// anybody: Ed25519 is deterministic (RFC 8032 §5.1.6), and a message that both have signed has one signature.

import { SIGNATURE_BYTES } from '../keys/ed25519.js'

export interface SlotSize {
  /** For lines. */
  readonly bytes: number
  /** Messages at most. */
  readonly messages: number
}

/** `open`: nobody's yet. `taken`: the thread is signing it. `signed`: by the thread. */
export type MessageState = 'open' | 'taken' | 'signed'

// What the word of a message's state holds. Closed: this thread has signed it, or is about to.
const CLOSED = 0
const OPEN = 1
const TAKEN = 2
const SIGNED = 3

// The words of a message. The thread reads the first three.
const STATE = 0
const START = 1
const END = 2
const HEAD_END = 3
const WORDS = 4

const WORD_BYTES = 4
// Before the messages' words, in a cache line of their own: how many they are, and how often the slot was emptied.
const COUNT = 0
const EPOCH = 1
const FIRST = 16

/** About as many glances as fit into the time of one signature. */
const GLANCES = 3_500

export function slotBytes({ bytes, messages }: SlotSize): number {
  const words = (FIRST + messages * WORDS) * WORD_BYTES
  return roundUp(words + messages * SIGNATURE_BYTES + bytes)
}

function roundUp(bytes: number): number {
  return (bytes + 63) & ~63
}

export class Slot {
  readonly bytes: Buffer
  readonly messages: number
  readonly #words: Int32Array
  readonly #signatures: Uint8Array
  #count = 0
  // Of the thread: how far it has looked, in which epoch.
  #seen = 0
  #epoch = 0
  /** Messages whose signature was not waited for: the thread may still be at it. */
  #abandoned: number[] = []

  /** @param memory has `slotBytes(size)` bytes at `offset`, all zero at first. */
  constructor(memory: ArrayBufferLike, offset: number, size: SlotSize) {
    this.messages = size.messages
    this.#words = new Int32Array(memory, offset, FIRST + size.messages * WORDS)
    const signatures = offset + this.#words.byteLength
    this.#signatures = new Uint8Array(memory, signatures, size.messages * SIGNATURE_BYTES)
    this.bytes = Buffer.from(memory, signatures + this.#signatures.byteLength, size.bytes)
  }

  /** A slot of this thread's own. */
  static alone(size: SlotSize): Slot {
    return new Slot(new ArrayBuffer(slotBytes(size)), 0, size)
  }

  /** Whether another thread may sign here. */
  get isShared(): boolean {
    return this.#words.buffer instanceof SharedArrayBuffer
  }

  /** Messages put since the slot was emptied. */
  get count(): number {
    return this.#count
  }

  /**
   * Offers `bytes[start, end)` to be signed. The bytes stay as they are until `takeBack` has given the message
   * back, and where its signature comes from the thread, until then.
   *
   * @param headEnd where its member is to be put in.
   */
  put(start: number, end: number, headEnd: number): void {
    const index = this.#count++
    const at = FIRST + index * WORDS
    this.#words[at + START] = start
    this.#words[at + END] = end
    this.#words[at + HEAD_END] = headEnd
    // Releases what was written before to whoever sees the state.
    Atomics.store(this.#words, at + STATE, OPEN)
    Atomics.store(this.#words, COUNT, this.#count)
  }

  start(index: number): number {
    return this.#words[FIRST + index * WORDS + START] ?? 0
  }

  end(index: number): number {
    return this.#words[FIRST + index * WORDS + END] ?? 0
  }

  headEnd(index: number): number {
    return this.#words[FIRST + index * WORDS + HEAD_END] ?? 0
  }

  message(index: number): Uint8Array {
    const start = this.start(index)
    // Thrice as fast as a Buffer.
    return new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + start, this.end(index) - start)
  }

  /** Only where it was `signed`. */
  signature(index: number): Uint8Array {
    return this.#signatures.subarray(index * SIGNATURE_BYTES, (index + 1) * SIGNATURE_BYTES)
  }

  /** Takes the message for this thread if it is open still; gives the state it was found in. */
  takeBack(index: number): MessageState {
    const was = Atomics.compareExchange(this.#words, FIRST + index * WORDS + STATE, OPEN, CLOSED)
    if (was === OPEN) return 'open'
    return was === TAKEN ? 'taken' : 'signed'
  }

  /** Whether the thread ends signing the message within about the time of one signature. */
  waitFor(index: number): boolean {
    const at = FIRST + index * WORDS + STATE
    for (let i = 0; i < GLANCES; i++) if (Atomics.load(this.#words, at) === SIGNED) return true
    this.#abandoned.push(index)
    return false
  }

  /** False while the thread may still write into it. */
  get isIdle(): boolean {
    if (this.#abandoned.length === 0) return true
    this.#abandoned = this.#abandoned.filter(
      (index) => Atomics.load(this.#words, FIRST + index * WORDS + STATE) !== SIGNED,
    )
    return this.#abandoned.length === 0
  }

  empty(): void {
    this.#count = 0
    Atomics.store(this.#words, COUNT, 0)
    Atomics.add(this.#words, EPOCH, 1)
  }

  /** The thread's part: signs what is open, from the front, until nothing is. Returns whether there was any. */
  signOpen(sign: (message: Uint8Array) => Uint8Array): boolean {
    let any = false
    const epoch = Atomics.load(this.#words, EPOCH)
    if (epoch !== this.#epoch) this.#seen = 0
    this.#epoch = epoch
    for (; this.#seen < Atomics.load(this.#words, COUNT); this.#seen++) {
      const at = FIRST + this.#seen * WORDS + STATE
      if (Atomics.compareExchange(this.#words, at, OPEN, TAKEN) !== OPEN) continue
      this.#signatures.set(sign(this.message(this.#seen)), this.#seen * SIGNATURE_BYTES)
      Atomics.store(this.#words, at, SIGNED)
      any = true
    }
    return any
  }
}
