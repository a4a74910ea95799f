// Percent-escapes and path segments as the programs behind the gateway may read them.

/** Escapes that decoders treat differently; the message is a predicate whose subject is the text. */
export class EscapeError extends Error {
  override readonly name = 'EscapeError'
}

const ESCAPE = /%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})/i
const NON_STANDARD = /%u[0-9A-Fa-f]{4}/i

/** Whether a decoder would change the text. */
export function hasEscape(text: string): boolean {
  return ESCAPE.test(text)
}

/**
 * Decodes percent-escapes once; a "%" that begins none stays.
 *
 * @throws {EscapeError} for `%u` escapes, and for bytes that are not UTF-8, overlong forms included
 */
export function decodeEscapes(text: string): string {
  if (!text.includes('%')) return text
  if (NON_STANDARD.test(text)) throw new EscapeError('has a %u escape, which decoders treat differently')
  try {
    return text.replace(/(?:%[0-9A-Fa-f]{2})+/g, decodeURIComponent)
  } catch (cause) {
    throw new EscapeError('has percent-escapes that are not UTF-8', { cause })
  }
}

const ASCII = /^[\0-\x7f]*$/

/** Whether decoded text has a `.` or `..` segment for any program, even one that folds full-width forms. */
export function hasDotSegment(path: string): boolean {
  return someSegment(path, (segment) => segment === '.' || segment === '..')
}

/** Whether a program finds a `.`, `..` or empty segment in decoded text. */
export function hasPathSegment(path: string): boolean {
  return someSegment(path, (segment) => segment === '' || segment === '.' || segment === '..')
}

function someSegment(path: string, test: (segment: string) => boolean): boolean {
  const folded = ASCII.test(path) ? path : path.normalize('NFKC')
  return folded.split(/[\\/]/).some((segment) => test(bare(segment)))
}

/** Servlet containers remove what follows a semicolon, Windows removes spaces, before they resolve `..`. */
function bare(segment: string): string {
  const semicolon = segment.indexOf(';')
  return (semicolon < 0 ? segment : segment.slice(0, semicolon)).trim()
}
