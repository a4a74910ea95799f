// Finds the authority that a string contacts when it is used as a URL (WHATWG URL, §4.4).

import type { ScanCounter } from '../content/strings.js'
import { type Prefix, prefixOf, schemeAt } from '../content/text.js'

/** Maximum length of an authority in UTF-16 units, without tabs and line breaks. A URL with a longer one is refused. */
const MAX_PREFIX = 2048

/**
 * `authority`: a URL with an authority; `scheme` is null for `//host` and for a host without a scheme.
 * `opaque`: a scheme without an authority. `file`: a file URL.
 * `ambiguous`: parsers disagree on the host, or it is beyond the prefix.
 */
export type UrlTarget =
  | { readonly kind: 'authority'; readonly scheme: string | null; readonly authority: string }
  | { readonly kind: 'opaque'; readonly scheme: string }
  | { readonly kind: 'file'; readonly host: string }
  | { readonly kind: 'ambiguous'; readonly detail: string }

/** Schemes that have an authority after any number of slashes or backslashes (WHATWG "special", without file). */
const specialSchemes: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss', 'ftp'])

/** Known schemes without `//`. Other text of the form `word:word` is not treated as a URL. */
const opaqueSchemes: ReadonlySet<string> = new Set(
  `about acct android-app blob callto cid content data dav dict facetime feed filesystem finger geo git glob gopher
   imap imaps intent irc ircs jar javascript ldap ldaps mailto market mid mms ms-settings netdoc news nfs nntp
   phar php pop pop3 rsync rtmp rtsp scp search-ms sftp sip sips sms smb smbs smtp smtps snmp ssh ssh2 steam stun
   svn tel telnet tftp turn url urn vbscript view-source wyciwyg xmpp zip`.split(/\s+/),
)

/** A picture within its URL (RFC 2397) contacts nobody; other data can be a page with scripts. */
const PICTURE = /^data:image\/(?:png|jpe?g|gif|webp|avif|bmp);base64,[A-Za-z0-9+/=]*$/i

export function urlPrefix(text: string, counter: ScanCounter): Prefix {
  return prefixOf(text, MAX_PREFIX, counter)
}

/** Undefined if the whole string is not a URL. Scheme-relative URLs count. */
export function parseUrl(prefix: Prefix): UrlTarget | undefined {
  const { text } = prefix
  if (hasTwoSlashes(text, 0)) return parseAuthorityAt(prefix, 0, null)
  const scheme = schemeAt(text, 0)
  // A scheme of one letter is a drive letter.
  if (scheme === undefined || scheme.length < 2 || PICTURE.test(text)) return undefined
  return parseAfterScheme(scheme, prefix)
}

/** The target of a value that is known to be a URL or host; undefined if it names no host, such as a path or a query. */
export function parseUrlOrHost(prefix: Prefix, isHost: boolean): UrlTarget | undefined {
  const { text } = prefix
  if (PICTURE.test(text)) return undefined
  const scheme = schemeAt(text, 0)
  if (scheme !== undefined && !isPort(text, scheme.length + 1)) {
    return parseAfterScheme(scheme, prefix) ?? { kind: 'opaque', scheme }
  }
  if (hasTwoSlashes(text, 0)) return parseAuthorityAt(prefix, 0, null)
  if (text === '' && !prefix.isTruncated) return undefined
  if (!isHost && isRelative(text)) return undefined
  return parseAuthorityAt(prefix, 0, null)
}

function parseAfterScheme(scheme: string, prefix: Prefix): UrlTarget | undefined {
  const { text } = prefix
  const after = scheme.length + 1
  if (specialSchemes.has(scheme)) return parseAuthorityAt(prefix, after, scheme)
  if (scheme === 'file' && text[after] !== ' ') return parseFileUrl(prefix, after)
  if (text.startsWith('//', after)) return parseAuthorityAt(prefix, after, scheme)
  if (hasNestedUrl(text, after)) return { kind: 'opaque', scheme }
  return opaqueSchemes.has(scheme) && text[after] !== ' ' ? { kind: 'opaque', scheme } : undefined
}

/** Whether another URL follows the scheme, as in `feed:https://…`. */
function hasNestedUrl(text: string, from: number): boolean {
  let at = from
  for (let scheme = schemeAt(text, at); scheme !== undefined; scheme = schemeAt(text, at)) {
    at += scheme.length + 1
    if (specialSchemes.has(scheme) || scheme === 'file' || text.startsWith('//', at)) return true
  }
  return false
}

function parseAuthorityAt(prefix: Prefix, from: number, scheme: string | null): UrlTarget {
  const { text, isTruncated } = prefix
  let start = from
  while (isSlash(text, start)) start++
  let end = start
  while (end < text.length && !isAuthorityEnd(text, end)) end++
  if (end === text.length && isTruncated)
    return { kind: 'ambiguous', detail: 'is too long to determine its host' }
  const authority = text.slice(start, end)
  if (authority.indexOf('@') !== authority.lastIndexOf('@') || (text[end] === '\\' && hasAtSign(text, end))) {
    return { kind: 'ambiguous', detail: 'has a host on which URL parsers disagree' }
  }
  return { kind: 'authority', scheme, authority }
}

/** RFC 3986 parsers do not end the authority at a backslash, so a later `@` gives them another host. */
function hasAtSign(text: string, from: number): boolean {
  for (let at = from; at < text.length && text[at] !== '/' && text[at] !== '?' && text[at] !== '#'; at++)
    if (text[at] === '@') return true
  return false
}

/** A file URL contacts another machine only if it has a host. */
function parseFileUrl(prefix: Prefix, after: number): UrlTarget {
  if (!hasTwoSlashes(prefix.text, after)) return { kind: 'file', host: '' }
  const target = parseAuthorityAt({ ...prefix, text: prefix.text.slice(after + 2) }, 0, 'file')
  // With three slashes the host is empty; with four or more the path is a Windows share, whose server is the host.
  const slashes = countSlashes(prefix.text, after)
  if (slashes === 3) return { kind: 'file', host: '' }
  return target.kind === 'authority' ? { kind: 'file', host: target.authority } : target
}

function countSlashes(text: string, from: number): number {
  let at = from
  while (isSlash(text, at)) at++
  return at - from
}

const PORT = /\d+(?:[/\\?#]|$)/y

/** Whether a port starts at `from`, since `host:8080` looks like a scheme and a path. */
function isPort(text: string, from: number): boolean {
  PORT.lastIndex = from
  return PORT.test(text)
}

/** Whether the text is a path, query or fragment of an unknown base URL. */
function isRelative(text: string): boolean {
  return /^(?:[/?#]|\.{1,2}(?:\/|$))/.test(text)
}

function hasTwoSlashes(text: string, at: number): boolean {
  return isSlash(text, at) && isSlash(text, at + 1)
}

function isSlash(text: string, at: number): boolean {
  return text[at] === '/' || text[at] === '\\'
}

function isAuthorityEnd(text: string, at: number): boolean {
  return isSlash(text, at) || text[at] === '?' || text[at] === '#'
}
