// The admin token: read through its key reference, so that it can be changed without a restart, and compared in constant
// time.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '@svc/core'
import { cachedFor, KeyError, type KeyReader } from '@svc/core/secret'

/** How long a token is cached, so that requests with wrong tokens cause no disk reads. */
const cacheMs = 1000
const minLength = 16
/** RFC 6750 §2.1: the characters of a bearer token. */
const b64token = /^[A-Za-z0-9\-._~+/]+=*$/

export class AdminToken {
  #ref: string
  #reader: KeyReader
  #digest: () => Promise<Buffer>

  constructor(ref: string, reader: KeyReader, clock: Clock) {
    this.#ref = ref
    this.#reader = reader
    this.#digest = cachedFor(cacheMs, clock, () => this.#load())
  }

  /** Rejects with `KeyError` when the reference has no valid token. */
  async check(): Promise<void> {
    await this.#digest()
  }

  /** Rejects with `KeyError` when the token cannot be read. */
  async equals(presented: string): Promise<boolean> {
    return timingSafeEqual(digestOf(presented), await this.#digest())
  }

  async #load(): Promise<Buffer> {
    const token = await this.#reader.read(this.#ref)
    if (token.length < minLength) {
      throw new KeyError('key_malformed', `the token has fewer than ${minLength} characters`)
    }
    if (!b64token.test(token)) {
      throw new KeyError('key_malformed', 'the token holds more than letters, digits, - . _ ~ + / and =')
    }
    return digestOf(token)
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
