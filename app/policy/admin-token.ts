// The admin token: read through its key reference, so that it can be changed without a restart, and compared in
// a time that tells nothing of it.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '@svc/core'
import { KeyError, type KeyReader } from '@svc/core/secret'

/** A changed token is seen after this; requests with wrong ones shall not keep the disk busy. */
const readAgainMs = 1000
const minLength = 16
/** RFC 6750 §2.1, `b64token`: what a client can send. */
const sendable = /^[A-Za-z0-9\-._~+/]+=*$/

export class AdminToken {
  #ref: string
  #reader: KeyReader
  #clock: Clock
  #read: { readonly digest: Promise<Buffer>; readonly until: number } | undefined

  constructor(ref: string, reader: KeyReader, clock: Clock) {
    this.#ref = ref
    this.#reader = reader
    this.#clock = clock
  }

  /** Rejects with `KeyError` when there is no token behind the reference, or none that will do. */
  async check(): Promise<void> {
    await this.#digest()
  }

  /** Rejects with `KeyError` when the token cannot be read. */
  async equals(presented: string): Promise<boolean> {
    return timingSafeEqual(digestOf(presented), await this.#digest())
  }

  #digest(): Promise<Buffer> {
    const now = this.#clock.monotonic()
    if (this.#read === undefined || now >= this.#read.until) {
      this.#read = { digest: this.#load(), until: now + readAgainMs }
    }
    return this.#read.digest
  }

  async #load(): Promise<Buffer> {
    const token = await this.#reader.read(this.#ref)
    if (token.length < minLength) {
      throw new KeyError('key_malformed', `the token has fewer than ${minLength} characters`)
    }
    if (!sendable.test(token)) {
      throw new KeyError('key_malformed', 'the token holds more than letters, digits, - . _ ~ + / and =')
    }
    return digestOf(token)
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
