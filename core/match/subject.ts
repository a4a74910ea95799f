// The text that patterns are matched against: the reference without its scheme, with one placeholder for each
// percent-encoded character, so that a literal never matches inside an escape.

import { foldName } from './fold.js'
import { normalized } from './normalize.js'
import { REFERENCE_PREFIX, ReferenceInputError } from './reference.js'

/** Control characters cannot occur in names or patterns, so they serve as placeholders. */
const PLACEHOLDERS: Readonly<Record<string, string>> = { '/': '\u0002', '@': '\u0003', '%': '\u0004' }

const ESCAPES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(PLACEHOLDERS).map(([sign, placeholder]) => [placeholder, encodeURIComponent(sign)]),
)

/** A character that no pattern contains, so that only a star matches it. */
export const FRESH = '\u0007'

/** Marks of the beginning and end of the text. */
export const BEGIN = '\u0005'
export const END = '\u0006'

export class Subject {
  #marked: string | undefined
  #keys: readonly string[] | undefined
  #folded: Subject | undefined

  constructor(
    /** `server/tool@version` */
    readonly text: string,
    readonly server: string,
    /** The part after the server's `/`. */
    readonly path: string,
  ) {}

  /** The text between the marks of its beginning and end. */
  get marked(): string {
    this.#marked ??= BEGIN + this.text + END
    return this.#marked
  }

  /** The keys of `PatternIndex.fixed` that match this subject. */
  get keys(): readonly string[] {
    this.#keys ??= this.#fixedKeys()
    return this.#keys
  }

  /** The subject with its names folded; itself if that changes nothing. */
  get folded(): Subject {
    this.#folded ??= this.#fold()
    return this.#folded
  }

  #fold(): Subject {
    const text = foldNames(this.text)
    return text === this.text ? this : subjectOfText(text)
  }

  #fixedKeys(): readonly string[] {
    const { text, server, path } = this
    const named = path.slice(0, path.lastIndexOf('@') + 1)
    return [text, `${server}/${named}`, `${FRESH}/${path}`, `${FRESH}/${named}`, `${server}/`, `${FRESH}/`]
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
  return subjectOfText(text)
}

function subjectOfText(text: string): Subject {
  const slash = text.indexOf('/')
  return new Subject(text, text.slice(0, slash), text.slice(slash + 1))
}

/** The reference of a subject, or of its fold. */
export function referenceOf({ text }: Subject): string {
  return `${REFERENCE_PREFIX}${text.replace(/\p{Cc}/gu, (sign) => ESCAPES[sign] ?? sign)}`
}

/** Folds each name in the text of a subject or of a pattern; a control character in it counts as a letter. */
export function foldNames(text: string): string {
  if (PLAIN.test(text)) return text.toLowerCase()
  const parts = text.split(SEPARATOR)
  return parts.map((name, i) => (i % 2 === 1 ? name : placeholdersFor(foldName(name)))).join('')
}

/** In such text, which most references are, a fold changes only the case. */
const PLAIN = /^[\w+-]+(?:\.[\w+-]+)*(?:[/@][\w+-]+(?:\.[\w+-]+)*)*$/
const SEPARATOR = /([/@])/

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

/** The canonical reference with its names folded. */
export function foldReference(reference: string): string {
  return referenceOf(subjectOf(reference).folded)
}
