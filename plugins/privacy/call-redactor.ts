// The redactor of one call. It knows the caller's names once the authn stage has set the identity.
import { type Call, type Identity, identity, type Redactor } from '@svc/core'
import type { Pseudonyms } from './pseudonyms.js'

/** Match the caller's names in a text. */
interface NamePatterns {
  /** Names that are e-mail addresses. */
  readonly addresses: RegExp | undefined
  readonly others: RegExp | undefined
}

/** The authn stage caches identities, so calls with one token share the object. */
const cache = new WeakMap<Identity, NamePatterns>()

export class CallRedactor implements Redactor {
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

/** The name as in the token, for a match in any case or encoding. */
function originalName(match: string, names: readonly string[]): string {
  const lowerCase = match.toLowerCase()
  const isMatch = (name: string) => spellings(name).some((spelling) => spelling.toLowerCase() === lowerCase)
  return names.find(isMatch) ?? match
}

function namesOf({ user, userId, clientId }: Identity): string[] {
  return [user, userId, clientId].filter((name) => name !== undefined)
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
