// The memory of one batch: its lines, and which of them are messages that need a signature. It can be shared with
// a thread that signs them too. Each message is claimed by one thread; neither waits for the other, because
// Ed25519 is deterministic (RFC 8032 §5.1.6) and a message that both sign has one signature.
import { SIGNATURE_BYTES } from '../format/key-sizes.js'

// The memory that the writer and its signing thread share: control words to start and wake the thread, then the
// batches.

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

export interface BatchSize {
  /** Space for lines. */
  readonly bytes: number
  /** Maximum number of messages. */
  readonly messages: number
}

/** `open`: unclaimed. `taken`: the thread is signing it. `signed`: the thread has signed it. */
type MessageState = 'open' | 'taken' | 'signed'

// Values of the state word. Closed: this thread has signed the message or is about to.
const CLOSED = 0
const OPEN = 1
const TAKEN = 2
const SIGNED = 3

// Word offsets of a message. The thread reads the first three.
const STATE = 0
const START = 1
const END = 2
const HEAD_END = 3
const WORDS = 4

const WORD_BYTES = 4
// The header, in its own cache line before the messages' words: the number of messages, and how often the batch
// was emptied.
const COUNT = 0
const EPOCH = 1
const FIRST = 16

/** Reads that take about as long as one signature. */
const SPIN_LIMIT = 3_500

export function sharedBatchBytes({ bytes, messages }: BatchSize): number {
  const words = (FIRST + messages * WORDS) * WORD_BYTES
  return roundUp(words + messages * SIGNATURE_BYTES + bytes)
}

function roundUp(bytes: number): number {
  return (bytes + 63) & ~63
}

export class SharedBatch {
  readonly bytes: Buffer
  readonly messages: number
  /** Whether the memory is shared with the signing thread. */
  readonly isThreadShared: boolean
  readonly #words: Int32Array
  readonly #signatures: Uint8Array
  /** Messages added since the batch was emptied. */
  count = 0
  // The thread's position, and the epoch that it belongs to.
  #seen = 0
  #epoch = 0
  /** Messages that the thread was too slow to sign; it may still write their signatures. */
  #abandoned: number[] = []

  /** @param memory has `sharedBatchBytes(size)` bytes at `offset`, all zero at first. */
  constructor(memory: ArrayBufferLike, offset: number, size: BatchSize) {
    this.messages = size.messages
    this.isThreadShared = memory instanceof SharedArrayBuffer
    this.#words = new Int32Array(memory, offset, FIRST + size.messages * WORDS)
    const signatures = offset + this.#words.byteLength
    this.#signatures = new Uint8Array(memory, signatures, size.messages * SIGNATURE_BYTES)
    this.bytes = Buffer.from(memory, signatures + this.#signatures.byteLength, size.bytes)
  }

  /** Memory that no other thread shares. */
  static local(size: BatchSize): SharedBatch {
    return new SharedBatch(new ArrayBuffer(sharedBatchBytes(size)), 0, size)
  }

  /**
   * Offers `bytes[start, end)` for signing. The bytes must not change before `claim` returns the message, or,
   * while the thread is signing it, before the signature is read.
   *
   * @param headEnd the offset at which the signature member is inserted.
   */
  put(start: number, end: number, headEnd: number): void {
    const index = this.count++
    const at = FIRST + index * WORDS
    this.#words[at + START] = start
    this.#words[at + END] = end
    this.#words[at + HEAD_END] = headEnd
    // Publishes the writes above to a thread that reads the state.
    Atomics.store(this.#words, at + STATE, OPEN)
    Atomics.store(this.#words, COUNT, this.count)
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
    // Three times as fast as creating a Buffer.
    return new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + start, this.end(index) - start)
  }

  /** Valid only in the state `signed`. */
  signature(index: number): Uint8Array {
    return this.#signatures.subarray(index * SIGNATURE_BYTES, (index + 1) * SIGNATURE_BYTES)
  }

  /** Claims the message for this thread if it is open; returns its previous state. */
  claim(index: number): MessageState {
    const was = Atomics.compareExchange(this.#words, FIRST + index * WORDS + STATE, OPEN, CLOSED)
    if (was === OPEN) return 'open'
    return was === TAKEN ? 'taken' : 'signed'
  }

  /** Whether the thread finishes the message within about the time of one signature. */
  waitFor(index: number): boolean {
    const at = FIRST + index * WORDS + STATE
    for (let i = 0; i < SPIN_LIMIT; i++) if (Atomics.load(this.#words, at) === SIGNED) return true
    this.#abandoned.push(index)
    return false
  }

  /** False while the thread may still write a signature here. */
  get isIdle(): boolean {
    if (this.#abandoned.length === 0) return true
    this.#abandoned = this.#abandoned.filter(
      (index) => Atomics.load(this.#words, FIRST + index * WORDS + STATE) !== SIGNED,
    )
    return this.#abandoned.length === 0
  }

  empty(): void {
    this.count = 0
    Atomics.store(this.#words, COUNT, 0)
    Atomics.add(this.#words, EPOCH, 1)
  }

  /**
   * Runs on the thread: signs open messages from the front until there are none. Returns whether there were any.
   */
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
