// Records that will be written and synced together. They share a buffer, into which each is encoded and
// signed in place, and one promise, so that a record costs neither a copy nor a promise of its own. Those whose
// signer allows it are signed all in one go when the batch is full or due: the signer's tables and code then
// stay in the processor's cache, and a thread can sign along.

import { type CutObject, joinCut, writeBase64 } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../keys/ed25519.js'
import type { Slot } from '../signing/shared-batch.js'

export const SIGNATURE_MEMBER = 'sig'

const MEMBER_START = Buffer.from(`"${SIGNATURE_MEMBER}":"ed25519:`)
const SIGNATURE_TEXT = Math.ceil(SIGNATURE_BYTES / 3) * 4
/** Two commas, the member, its closing quote, the newline. */
const OVERHEAD = MEMBER_START.length + SIGNATURE_TEXT + 4
const UTF8_BYTES_PER_UNIT = 3
const NEWLINE = 0x0a
const COMMA = 0x2c
const QUOTE = 0x22

/** Bytes that a text of `length` code units may need as a signed line. */
export function roomFor(length: number): number {
  return length * UTF8_BYTES_PER_UNIT + OVERHEAD
}

/** Bytes by which the signature's member makes the message in `[start, end)` longer. */
function inserted(start: number, end: number, headEnd: number): number {
  const isAlone = headEnd - start === 1 && end - headEnd === 1
  return MEMBER_START.length + SIGNATURE_TEXT + (isAlone ? 1 : 2)
}

type Sign = (message: Uint8Array) => Uint8Array

/** Which bytes of a batch also belong to an agent's file. */
export interface AgentRange {
  readonly path: string
  readonly start: number
  readonly end: number
}

export class Batch {
  readonly slot: Slot
  readonly buffer: Buffer
  readonly settled: Promise<void>
  length = 0
  records = 0
  readonly agents: AgentRange[] = []
  #resolve: () => void = unset
  #reject: (error: Error) => void = unset

  constructor(slot: Slot) {
    this.slot = slot
    this.buffer = slot.bytes
    this.settled = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  has(room: number): boolean {
    return this.buffer.length - this.length >= room && this.slot.count < this.slot.messages
  }

  /** Records whose lines are still to be signed. */
  get unsigned(): number {
    return this.slot.count
  }

  resolve(): void {
    this.#resolve()
  }

  reject(error: Error): void {
    this.#reject(error)
  }

  /** Adds one line as it is. Returns its length in bytes. */
  addLine(text: string): number {
    const start = this.length
    const end = start + this.buffer.write(text, start)
    this.buffer[end] = NEWLINE
    return this.#grow(end + 1)
  }

  /** Signs the object in place and adds its line. Nothing is added when signing throws. */
  addSigned(cut: CutObject, sign: Sign): number {
    const { length: start } = this
    const { end, headEnd } = this.#encode(cut)
    return this.#grow(this.#splice(start, end, headEnd, sign(this.buffer.subarray(start, end))))
  }

  /** Adds the line of an object that was signed elsewhere. */
  addWithSignature(cut: CutObject, sig: Uint8Array): number {
    const { length: start } = this
    const { end, headEnd } = this.#encode(cut)
    return this.#grow(this.#splice(start, end, headEnd, sig))
  }

  /** Adds the line of an object that `sign` will sign. */
  addUnsigned(cut: CutObject): number {
    const { length: start } = this
    const { end, headEnd } = this.#encode(cut)
    this.slot.put(start, end, headEnd)
    return this.#grow(end + inserted(start, end, headEnd) + 1)
  }

  /**
   * Signs what was added unsigned, together with the thread that the slot may be shared with: from the back, as
   * the thread begins at the front. Nothing is added afterwards. Throws what `sign` throws.
   *
   * @returns how many signatures came from the thread.
   */
  sign(sign: Sign): number {
    const { slot } = this
    const taken: number[] = []
    let own = 0
    for (let i = slot.count - 1; i >= 0; i--) {
      const state = slot.takeBack(i)
      if (state === 'taken') {
        taken.push(i)
      } else if (state === 'signed') {
        this.#spliceAt(i, slot.signature(i))
      } else {
        this.#spliceAt(i, sign(slot.message(i)))
        own++
      }
    }
    for (const i of taken) {
      const isSigned = slot.waitFor(i)
      this.#spliceAt(i, isSigned ? slot.signature(i) : sign(slot.message(i)))
      if (!isSigned) own++
    }
    return slot.count - own
  }

  /** Encodes what is signed of the object at the end of the batch. */
  #encode(cut: CutObject): { end: number; headEnd: number } {
    const { buffer, length: start } = this
    const message = joinCut(cut)
    const end = start + buffer.write(message, start)
    const isAscii = end - start === message.length
    return { end, headEnd: start + (isAscii ? cut.head.length : Buffer.byteLength(cut.head)) }
  }

  #spliceAt(index: number, sig: Uint8Array): void {
    const { slot } = this
    this.#splice(slot.start(index), slot.end(index), slot.headEnd(index), sig)
  }

  /** Makes room for the signature at its sorted place in the message; gives where the line ends. */
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
    // The message has its comma at the cut exactly when both sides have members; it serves the member
    // before, and the tail gets one of its own.
    let at = headEnd + (hasHead && hasTail ? 1 : 0)
    const more = inserted(start, end, headEnd)
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
