// The text that patterns are matched against: the reference without its scheme, with one placeholder for each
// percent-encoded character, so that a literal never matches inside an escape.

import { normalized } from './normalize.js'
import { REFERENCE_PREFIX, ReferenceInputError } from './reference.js'

/** Control characters cannot occur in names or patterns, so they serve as placeholders. */
const PLACEHOLDERS: Readonly<Record<string, string>> = { '/': '\u0002', '@': '\u0003', '%': '\u0004' }

/** A character that is in no pattern, so that only a star matches it. */
export const FRESH = '\u0007'

/** Marks of the begin and end of the text. */
export const BEGIN = '\u0005'
export const END = '\u0006'

export class Subject {
  #marked: string | undefined
  #keys: readonly string[] | undefined

  constructor(
    /** `server/tool@version` */
    readonly text: string,
    readonly server: string,
    /** The part after the server's `/`. */
    readonly path: string,
  ) {}

  /** The text between the marks of its begin and end. */
  get marked(): string {
    this.#marked ??= BEGIN + this.text + END
    return this.#marked
  }

  /** The keys of `PatternIndex.fixed` that match this subject. */
  get keys(): readonly string[] {
    this.#keys ??= this.#fixedKeys()
    return this.#keys
  }

  #fixedKeys(): readonly string[] {
    const { text, server, path } = this
    const named = path.slice(0, path.lastIndexOf('@') + 1)
    return [text, `${server}/${named}`, `/${path}`, `/${named}`, `${server}/`, '/']
  }
}

// Cached, because one call matches the same reference against many sets.
let last: { readonly reference: string; readonly subject: Subject } | undefined

/**
 * @param reference canonical (`formatReference`)
 * @throws {ReferenceInputError} for text that is not a canonical reference
 */
export function subjectOf(reference: string): Subject {
  if (last?.reference !== reference) last = { reference, subject: parseSubject(reference) }
  return last.subject
}

function parseSubject(reference: string): Subject {
  const body = reference.slice(REFERENCE_PREFIX.length)
  const text = body.includes('%') ? body.replace(/%(?:2F|40|25)?/g, placeholderOfEscape) : body
  const slash = text.indexOf('/')
  if (slash < 1 || text.indexOf('@', slash) < 0 || !reference.startsWith(REFERENCE_PREFIX))
    throw new ReferenceInputError('not_a_reference', 'only a whole reference can be matched against patterns')
  return new Subject(text, text.slice(0, slash), text.slice(slash + 1))
}

/** A server's decoded name as it is written in a subject. */
export function serverSubject(server: string): string {
  return placeholdersFor(normalized(server, 'NFC'))
}

/** Decoded text with placeholders for the separators of a reference. */
export function placeholdersFor(text: string): string {
  return text.replace(/[/@%]/g, (char) => PLACEHOLDERS[char] ?? char)
}

function placeholderOfEscape(encoded: string): string {
  if (encoded === '%')
    throw new ReferenceInputError(
      'not_a_reference',
      'only canonical references can be matched against patterns',
    )
  return placeholdersFor(decodeURIComponent(encoded))
}
