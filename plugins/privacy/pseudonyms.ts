// Names of people to keyed hashes: HMAC-SHA-256 (RFC 2104), so that the same person is the same pseudonym in every
// record of a deployment and nobody without the key can tell who it is.
import { createHmac } from 'node:crypto'
import { normalized } from '@svc/core/match'

/** `name@host.tld`, also with its `@` percent-encoded. Linear: it begins where a run of its characters does. */
const address =
  /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}._%+-]{1,64}?(?:@|%40)(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,63}(?![\p{L}\p{N}_-])/gu
const wholeAddress = new RegExp(`^(?:${address.source})$`, 'u')
/** The version in `tool@1.0.0-rc.one` is no host. */
const version = /(?:@|%40)v?\d+\.\d+\.\d+(?:[-+][\p{L}\p{N}.+-]*)?$/u
const maxRemembered = 10_000

export class Pseudonyms {
  #key: string
  /** A gateway sees the same people again and again. */
  #remembered = new Map<string, string>()

  constructor(key: string) {
    this.#key = key
  }

  /** `hmac-sha256:` and 64 hexadecimal digits. E-mail addresses are the same in any case of letters. */
  of(name: string): string {
    const known = this.#remembered.get(name)
    if (known !== undefined) return known
    const plain = normalized(name, 'NFC')
    const told = wholeAddress.test(plain) ? plain.toLowerCase() : plain
    const pseudonym = `hmac-sha256:${createHmac('sha256', this.#key).update(told).digest('hex')}`
    if (this.#remembered.size >= maxRemembered) this.#remembered.clear()
    this.#remembered.set(name, pseudonym)
    return pseudonym
  }

  /** The text with pseudonyms in place of e-mail addresses. */
  inPlaceOfAddresses(text: string): string {
    if (!text.includes('@') && !text.includes('%40')) return text
    return text.replace(address, (found) =>
      version.test(found) ? found : this.of(found.replace('%40', '@')),
    )
  }
}
