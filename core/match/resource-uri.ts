// Reads URIs of resources. A policy matches the decoded text of a URI; a URI that programs could read in two ways has
// no such text and is refused.

import { decodeEscapes, EscapeError, hasDotSegment } from './escapes.js'
import { isUrl } from './is-url.js'

/** The components of RFC 3986, appendix B; the text before a colon is a scheme only if it has the form of one. */
const COMPONENTS = /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$/s

/** Schemes whose hosts and paths all URL parsers normalize (WHATWG "special"). */
const SPECIAL: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss', 'ftp', 'file'])

/** Unreserved characters (RFC 3986 §2.3) are never encoded in the normal form. */
const ENCODED_UNRESERVED = /%(?:2[de]|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])/i
const ENCODED_SEPARATOR = /%(?:2f|5c)/i
const ENCODED_TWICE = /%25(?:[0-9a-f]{2}|u[0-9a-f]{4})/i
const MALFORMED_ESCAPE = /%(?![0-9a-f]{2})/i

/** Escapes of characters that would be structure if they were decoded. */
const STRUCTURE_OF_PATH = /(%(?:25|3f|23))/i
const STRUCTURE_OF_QUERY = /(%(?:25|23|26|2b|3b|3d))/i

/**
 * The URI, or URI template, with its escapes decoded, except those of `%` and of delimiters. Applied to its own result
 * it changes nothing.
 *
 * @returns undefined if the URI is not in the normal form of RFC 3986 §6.2, or if programs could read it differently
 */
export function readUri(uri: string): string | undefined {
  const [, scheme, authority, path = '', query = '', fragment = ''] = COMPONENTS.exec(uri) ?? []
  // URL parsers read a backslash as a slash.
  if (path.includes('\\') || authority?.includes('\\')) return undefined
  if (MALFORMED_ESCAPE.test(uri) || ENCODED_UNRESERVED.test(uri) || ENCODED_TWICE.test(uri)) return undefined
  if (ENCODED_SEPARATOR.test(path) || !isNormalOrigin(scheme, authority)) return undefined
  try {
    const read = decodeExcept(path, STRUCTURE_OF_PATH)
    const isUrl = scheme !== undefined && SPECIAL.has(scheme)
    if (hasDotSegment(read) || ((isUrl || read.startsWith('/')) && read.includes('//'))) return undefined
    if (isUrl && !isNormalUrl(scheme, uri, path, fragment)) return undefined
    if (scheme === 'file' && (query !== '' || (read !== '/' && read.endsWith('/')))) return undefined
    const origin = `${scheme === undefined ? '' : `${scheme}:`}${authority === undefined ? '' : `//${authority}`}`
    const rest = decodeExcept(query + fragment, STRUCTURE_OF_QUERY)
    const whole = `${origin}${read}${rest}`
    // URL parsers remove spaces at the ends.
    return whole === whole.trim() ? whole : undefined
  } catch (error) {
    if (error instanceof EscapeError) return undefined
    throw error
  }
}

/** A scheme in lower case; an authority without user, escape or, if it is a host, a spelling of its own. */
function isNormalOrigin(scheme: string | undefined, authority: string | undefined): boolean {
  // Without a scheme the meaning of `//host/path` depends on the reader's base URL.
  if (scheme === undefined) return authority === undefined
  if (scheme !== scheme.toLowerCase() || /[@%]/.test(authority ?? '')) return false
  if (!SPECIAL.has(scheme)) return true
  if (authority === undefined) return false
  // The name with a trailing dot is the same host.
  if (/\.(?::|$)/.test(authority)) return false
  const base = `${scheme}://${authority}/`
  return isUrl(base) && new URL(base).host === authority
}

/** Whether a URL parser changes nothing except encoding. */
function isNormalUrl(scheme: string, uri: string, path: string, fragment: string): boolean {
  // Clients do not send the fragment.
  if (fragment !== '' || !isUrl(uri)) return false
  const { pathname, protocol } = new URL(uri)
  return protocol === `${scheme}:` && decodeEscapes(pathname) === decodeEscapes(path)
}

function decodeExcept(text: string, structure: RegExp): string {
  if (!text.includes('%')) return text
  return text
    .split(structure)
    .map((piece, i) => (i % 2 === 1 ? piece.toUpperCase() : decodeEscapes(piece)))
    .join('')
}
