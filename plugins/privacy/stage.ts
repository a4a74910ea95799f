// Pseudonyms of people: HMAC-SHA-256 (RFC 2104), so that one person has the same pseudonym in all records of a deployment
// and the name cannot be guessed without the key. The redactor of one call knows its caller once authn has set the identity.
import { createHmac } from 'node:crypto'
import {
  type Call,
  type DoctorCheck,
  type Identity,
  identity,
  type MaybePromise,
  type Next,
  type Outcome,
  type Redactor,
  redactor,
  type Stage,
} from '@svc/core'
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

/** The patterns of the caller's names in a text. */
interface NamePatterns {
  /** Names that are e-mail addresses. */
  readonly addresses: RegExp | undefined
  readonly others: RegExp | undefined
}

/** The authn stage caches identities, so calls with one token share the object. */
const cache = new WeakMap<Identity, NamePatterns>()

class CallRedactor implements Redactor {
  #call: Call
  #pseudonyms: Pseudonyms

  constructor(call: Call, pseudonyms: Pseudonyms) {
    this.#call = call
    this.#pseudonyms = pseudonyms
  }

  pseudonym(name: string): string {
    return this.#pseudonyms.of(name)
  }

  /** Other names come last, because they may be a part of an address. */
  text(text: string): string {
    const caller = this.#call.get(identity)
    if (caller === undefined) return this.#pseudonyms.replaceAddresses(text)
    const { addresses, others } = patternsFor(caller)
    const redacted = this.#pseudonyms.replaceAddresses(this.#replaceNames(addresses, text, caller))
    return this.#replaceNames(others, redacted, caller)
  }

  #replaceNames(pattern: RegExp | undefined, text: string, caller: Identity): string {
    if (pattern === undefined) return text
    return text.replace(pattern, (match) => this.#pseudonyms.of(originalName(match, namesOf(caller))))
  }
}

function patternsFor(caller: Identity): NamePatterns {
  let patterns = cache.get(caller)
  if (patterns === undefined) {
    const names = namesOf(caller)
    patterns = {
      addresses: patternOf(names.filter((name) => name.includes('@'))),
      others: patternOf(names.filter((name) => !name.includes('@'))),
    }
    cache.set(caller, patterns)
  }
  return patterns
}

/** Maps a match in any case or encoding to the name in the token. */
function originalName(match: string, names: readonly string[]): string {
  const lowerCase = match.toLowerCase()
  const isMatch = (name: string) => spellings(name).some((spelling) => spelling.toLowerCase() === lowerCase)
  return names.find(isMatch) ?? match
}

function namesOf({ user, userId, clientId, client }: Identity): string[] {
  return [...new Set([user, userId, clientId, client])].filter((name) => name !== undefined)
}

/** The name, and its percent-encoded form. */
function spellings(name: string): string[] {
  const encoded = encodeURIComponent(name.toWellFormed())
  return encoded === name ? [name] : [name, encoded]
}

/**
 * Matches whole words: the user "ad" is not in "read". A word also starts after a percent-encoded character. Longer
 * names come first, because one name may be a prefix of another.
 */
function patternOf(names: readonly string[]): RegExp | undefined {
  if (names.length === 0) return undefined
  const all = names.flatMap(spellings).sort((a, b) => b.length - a.length)
  const escaped = all.map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'))
  const start = '(?:(?<![\\p{L}\\p{N}_])|(?<=%[0-9A-Fa-f]{2}))'
  return new RegExp(`${start}(?:${escaped.join('|')})(?![\\p{L}\\p{N}_])`, 'giu')
}

interface PrivacyStageOptions {
  readonly isEnabled: boolean
  /** Called at start if redaction is enabled. */
  key(): Promise<string>
  doctor(): Promise<readonly DoctorCheck[]>
}

export class PrivacyStage implements Stage {
  #options: PrivacyStageOptions
  #pseudonyms: Pseudonyms | undefined

  constructor(options: PrivacyStageOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    if (this.#options.isEnabled) this.#pseudonyms ??= new Pseudonyms(await this.#options.key())
  }

  async stop(): Promise<void> {
    this.#pseudonyms = undefined
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#options.doctor()
  }

  /** Redacts personal data outside calls. Throws before the start. */
  get redactor(): Redactor {
    const pseudonyms = this.#pseudonyms
    if (pseudonyms === undefined) throw new Error('the privacy stage has not started')
    return {
      pseudonym: (name) => pseudonyms.of(name),
      text: (text) => pseudonyms.replaceAddresses(text),
    }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (!this.#options.isEnabled) return next()
    // Fails rather than records an identity that must be redacted.
    if (this.#pseudonyms === undefined) throw new Error('the privacy stage has not started')
    call.set(redactor, new CallRedactor(call, this.#pseudonyms))
    return next()
  }
}
