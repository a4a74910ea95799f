// Pseudonyms of people: HMAC-SHA-256 (RFC 2104), so that one person has the same pseudonym in all records of a deployment
// and the name cannot be guessed without the key.
import { createHmac } from 'node:crypto'
import { normalized } from '@svc/core/match'

/** `name@host.tld`, also with `@` percent-encoded. Linear, because a match starts only at the start of a run. */
const address =
  /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}._%+-]{1,64}?(?:@|%40)(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,63}(?![\p{L}\p{N}_-])/gu
const wholeAddress = new RegExp(`^(?:${address.source})$`, 'u')
/** In `tool@1.0.0-rc.one` a version follows the `@`, not a host. */
const version = /(?:@|%40)v?\d+\.\d+\.\d+(?:[-+][\p{L}\p{N}.+-]*)?$/u
const maxCached = 10_000

export class Pseudonyms {
  #key: string
  #cache = new Map<string, string>()

  constructor(key: string) {
    this.#key = key
  }

  /** `hmac-sha256:` and 64 hexadecimal digits. The case of an e-mail address does not matter. */
  of(name: string): string {
    const cached = this.#cache.get(name)
    if (cached !== undefined) return cached
    const plain = normalized(name, 'NFC')
    const hashed = wholeAddress.test(plain) ? plain.toLowerCase() : plain
    const pseudonym = `hmac-sha256:${createHmac('sha256', this.#key).update(hashed).digest('hex')}`
    if (this.#cache.size >= maxCached) this.#cache.clear()
    this.#cache.set(name, pseudonym)
    return pseudonym
  }

  /** Replaces e-mail addresses by their pseudonyms. */
  replaceAddresses(text: string): string {
    if (!text.includes('@') && !text.includes('%40')) return text
    return text.replace(address, (found) =>
      version.test(found) ? found : this.of(found.replace('%40', '@')),
    )
  }
}
