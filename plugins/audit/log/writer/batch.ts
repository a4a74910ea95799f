// Records that are written and synced together. They share one buffer, into which each is encoded and signed in
// place, and one promise, so that a record needs no copy and no promise of its own. If the signer allows it,
// records are signed together when the batch is full or due: the signer's tables and code then stay in the
// processor's cache, and a thread can sign in parallel.

import { writeBase64 } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../format/key-sizes.js'
import type { SharedBatch } from '../signing/shared-batch.js'

export const SIGNATURE_MEMBER = 'sig'

const MEMBER_START = Buffer.from(`"${SIGNATURE_MEMBER}":"ed25519:`)
const SIGNATURE_TEXT = Math.ceil(SIGNATURE_BYTES / 3) * 4
/** Two commas, the member, its closing quote, the newline. */
const OVERHEAD = MEMBER_START.length + SIGNATURE_TEXT + 4
const UTF8_BYTES_PER_UNIT = 3
const NEWLINE = 0x0a
const COMMA = 0x2c
const QUOTE = 0x22

/** Upper bound of the bytes of a signed line whose text has `length` code units. */
export function maxLineBytes(length: number): number {
  return length * UTF8_BYTES_PER_UNIT + OVERHEAD
}

/** Bytes that the signature member adds to the message in `[start, end)`. */
function signatureMemberBytes(start: number, end: number, headEnd: number): number {
  const isAlone = headEnd - start === 1 && end - headEnd === 1
  return MEMBER_START.length + SIGNATURE_TEXT + (isAlone ? 1 : 2)
}

type Sign = (message: Uint8Array) => Uint8Array

/** The canonical JSON of a record, to be signed. */
export interface UnsignedLine {
  readonly bytes: Uint8Array
  /** The place of the signature: the end of the last member before it, without a trailing comma. */
  readonly headEnd: number
}

/** The bytes of a batch that also go to an agent's file. */
export interface AgentRange {
  readonly path: string
  readonly start: number
  readonly end: number
}

export class WriteBatch {
  readonly memory: SharedBatch
  readonly buffer: Buffer
  readonly settled: Promise<void>
  length = 0
  records = 0
  readonly agents: AgentRange[] = []
  /** Numbers of the session that are lost if the batch cannot be written. */
  readonly numbers: number[] = []
  /** Called when they are lost. */
  onLost: (() => void) | undefined
  isLost = false
  /** End the wait of its records. */
  resolve: () => void = unset
  reject: (error: Error) => void = unset

  /** @param failuresBefore batches of its file that had failed when it was begun. */
  constructor(
    memory: SharedBatch,
    readonly failuresBefore: number,
  ) {
    this.memory = memory
    this.buffer = memory.bytes
    this.settled = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  hasRoom(room: number): boolean {
    return this.buffer.length - this.length >= room && this.memory.count < this.memory.messages
  }

  /** Marks its numbers as lost. */
  markLost(): void {
    this.isLost = true
    this.onLost?.()
  }

  /** Adds one line unchanged. Returns its length in bytes. */
  addLine(text: string): number {
    const start = this.length
    const end = start + this.buffer.write(text, start)
    this.buffer[end] = NEWLINE
    return this.#grow(end + 1)
  }

  /** Signs the object in place and adds its line. Nothing is added when signing throws. */
  addSigned(cut: UnsignedLine, sign: Sign): number {
    const { start, end, headEnd } = this.#copy(cut)
    return this.#grow(this.#splice(start, end, headEnd, sign(this.buffer.subarray(start, end))))
  }

  /** Adds the line of an object with a given signature. */
  addWithSignature(cut: UnsignedLine, sig: Uint8Array): number {
    const { start, end, headEnd } = this.#copy(cut)
    return this.#grow(this.#splice(start, end, headEnd, sig))
  }

  /** Adds the line of an object that `sign` signs later. */
  addUnsigned(bytes: Uint8Array, head: number): number {
    const { length: start } = this
    const [end, headEnd] = [start + bytes.length, start + head]
    this.buffer.set(bytes, start)
    this.memory.put(start, end, headEnd)
    return this.#grow(end + signatureMemberBytes(start, end, headEnd) + 1)
  }

  /**
   * Signs what was added unsigned. Starts at the end, because the signing thread, if there is one, starts at the
   * front. Nothing can be added afterwards. Throws what `sign` throws.
   *
   * @returns the number of signatures that the thread made.
   */
  sign(sign: Sign): number {
    const { memory } = this
    const taken: number[] = []
    let own = 0
    for (let i = memory.count - 1; i >= 0; i--) {
      const state = memory.claim(i)
      if (state === 'taken') {
        taken.push(i)
      } else if (state === 'signed') {
        this.#spliceAt(i, memory.signature(i))
      } else {
        this.#spliceAt(i, sign(memory.message(i)))
        own++
      }
    }
    for (const i of taken) {
      const isSigned = memory.waitFor(i)
      this.#spliceAt(i, isSigned ? memory.signature(i) : sign(memory.message(i)))
      if (!isSigned) own++
    }
    return memory.count - own
  }

  /** Copies the message to sign to the end of the batch. */
  #copy({ bytes, headEnd }: UnsignedLine): { start: number; end: number; headEnd: number } {
    const { length: start } = this
    this.buffer.set(bytes, start)
    return { start, end: start + bytes.length, headEnd: start + headEnd }
  }

  #spliceAt(index: number, sig: Uint8Array): void {
    const { memory } = this
    this.#splice(memory.start(index), memory.end(index), memory.headEnd(index), sig)
  }

  /** Inserts the signature at its sorted position in the message; returns where the line ends. */
  #splice(start: number, end: number, headEnd: number, sig: Uint8Array): number {
    if (sig.length !== SIGNATURE_BYTES) {
      throw new AuditError(
        'signer_failed',
        `the signer gave ${sig.length} bytes, an Ed25519 signature has 64`,
      )
    }
    const { buffer } = this
    const hasHead = headEnd - start > 1
    const hasTail = end - headEnd > 1
    // The message has a comma at the cut only when members stand on both sides. That comma now follows the member
    // before, and the tail gets a comma of its own.
    let at = headEnd + (hasHead && hasTail ? 1 : 0)
    const more = signatureMemberBytes(start, end, headEnd)
    buffer.copyWithin(at + more, at, end)
    if (hasHead && !hasTail) buffer[at++] = COMMA
    at += MEMBER_START.copy(buffer, at)
    at = writeBase64(sig, buffer, at)
    buffer[at++] = QUOTE
    if (hasTail) buffer[at] = COMMA
    buffer[end + more] = NEWLINE
    return end + more + 1
  }

  #grow(end: number): number {
    const bytes = end - this.length
    this.length = end
    this.records++
    return bytes
  }
}

function unset(): never {
  throw new Error('a promise executor runs synchronously')
}
