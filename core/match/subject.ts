// The text that patterns are matched against: a reference's own, without its scheme, and with one sign in place of
// each percent-encoded character, so that a pattern's literal never matches inside an escape.

import { normalized } from './normalize.js'
import { REFERENCE_PREFIX, ReferenceInputError } from './reference.js'

/** Control characters cannot occur in names or patterns, so they are free to stand for something else. */
const SIGNS: Readonly<Record<string, string>> = { '/': '\u0002', '@': '\u0003', '%': '\u0004' }

/** A character that is in no pattern: only a star can match it. */
export const FRESH = '\u0007'

/** Control characters are in no name. */
export const BEGIN = '\u0005'
export const END = '\u0006'

export class Subject {
  #marked: string | undefined
  #keys: readonly string[] | undefined

  constructor(
    /** `server/tool@version` */
    readonly text: string,
    readonly server: string,
    /** What follows the server's `/`. */
    readonly path: string,
  ) {}

  /** The text between the marks of its begin and end. */
  get marked(): string {
    this.#marked ??= BEGIN + this.text + END
    return this.#marked
  }

  /** What patterns that fix whole parts may be found under. */
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

// One call asks many sets of patterns about one reference.
let last: { readonly reference: string; readonly subject: Subject } | undefined

/**
 * @param reference canonical, as `formatReference` gives it
 * @throws {ReferenceInputError} for text that has not the structure or the escapes of one
 */
export function subjectOf(reference: string): Subject {
  if (last?.reference !== reference) last = { reference, subject: parseSubject(reference) }
  return last.subject
}

function parseSubject(reference: string): Subject {
  const body = reference.slice(REFERENCE_PREFIX.length)
  const text = body.includes('%') ? body.replace(/%(?:2F|40|25)?/g, signOfEscape) : body
  const slash = text.indexOf('/')
  if (slash < 1 || text.indexOf('@', slash) < 0 || !reference.startsWith(REFERENCE_PREFIX))
    throw new ReferenceInputError('not_a_reference', 'only a whole reference can be matched against patterns')
  return new Subject(text, text.slice(0, slash), text.slice(slash + 1))
}

/** A server's decoded name as it stands in a subject. */
export function serverSubject(server: string): string {
  return signsFor(normalized(server, 'NFC'))
}

/** Decoded text with signs in place of what would be read as structure. */
export function signsFor(text: string): string {
  return text.replace(/[/@%]/g, (char) => SIGNS[char] ?? char)
}

function signOfEscape(encoded: string): string {
  if (encoded === '%')
    throw new ReferenceInputError(
      'not_a_reference',
      'only canonical references can be matched against patterns',
    )
  return signsFor(decodeURIComponent(encoded))
}
