// Records that will be written and synced together. They share a buffer, into which each is encoded and
// signed in place, and one promise, so that a record costs neither a copy nor a promise of its own.

import { type CutObject, joinCut, toBase64 } from '@svc/core'
import { AuditError } from '../errors.js'
import { SIGNATURE_BYTES } from '../signer/ed25519.js'

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

/** Which bytes of a batch also belong to an agent's file. */
export interface AgentRange {
  readonly path: string
  readonly start: number
  readonly end: number
}

export class Batch {
  readonly buffer: Buffer
  readonly settled: Promise<void>
  length = 0
  records = 0
  readonly agents: AgentRange[] = []
  #resolve: () => void = unset
  #reject: (error: Error) => void = unset

  constructor(buffer: Buffer) {
    this.buffer = buffer
    this.settled = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  has(room: number): boolean {
    return this.buffer.length - this.length >= room
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
  addSigned(cut: CutObject, sign: (message: Uint8Array) => Uint8Array): number {
    const message = joinCut(cut)
    const { buffer, length: start } = this
    const end = start + buffer.write(message, start)
    return this.#splice(cut, end, end - start === message.length, sign(buffer.subarray(start, end)))
  }

  /** Adds the line of an object that was signed elsewhere. */
  addWithSignature(cut: CutObject, sig: Uint8Array): number {
    const message = joinCut(cut)
    const end = this.length + this.buffer.write(message, this.length)
    return this.#splice(cut, end, end - this.length === message.length, sig)
  }

  /** Makes room for the signature at its sorted place in the message that ends at `end`. */
  #splice(cut: CutObject, end: number, ascii: boolean, sig: Uint8Array): number {
    if (sig.length !== SIGNATURE_BYTES) {
      throw new AuditError(
        'signer_failed',
        `the signer gave ${sig.length} bytes, an Ed25519 signature has 64`,
      )
    }
    const { buffer, length: start } = this
    const hasHead = cut.head.length > 1
    const hasTail = cut.tail.length > 1
    // The message has its comma at the cut exactly when both sides have members; it serves the member
    // before, and the tail gets one of its own.
    let at = start + (ascii ? cut.head.length : Buffer.byteLength(cut.head)) + (hasHead && hasTail ? 1 : 0)
    const inserted = MEMBER_START.length + SIGNATURE_TEXT + 1 + (hasHead || hasTail ? 1 : 0)
    buffer.copyWithin(at + inserted, at, end)
    if (hasHead && !hasTail) buffer[at++] = COMMA
    at += MEMBER_START.copy(buffer, at)
    at += buffer.write(toBase64(sig), at, 'latin1')
    buffer[at++] = QUOTE
    if (hasTail) buffer[at] = COMMA
    buffer[end + inserted] = NEWLINE
    return this.#grow(end + inserted + 1)
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
