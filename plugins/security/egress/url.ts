// Which strings are URLs as a whole, and which authority they would contact (WHATWG URL, §4.4).
import { type Head, headOf } from '../content/text.js'
import type { Effort } from '../content/walk.js'

/** In UTF-16 units, without tabs and line ends: within it the authority ends, or the URL is refused. */
const WINDOW = 2048

/**
 * `authority`: the scheme's rules find one (`scheme` null: the base's scheme, or none was written).
 * `opaque`: a scheme without an authority. `file`: a file URL.
 * `unclear`: readers disagree on the host, or it is out of sight.
 */
export type Target =
  | { readonly kind: 'authority'; readonly scheme: string | null; readonly authority: string }
  | { readonly kind: 'opaque'; readonly scheme: string }
  | { readonly kind: 'file'; readonly host: string }
  | { readonly kind: 'unclear'; readonly why: string }

/** Schemes with an authority however many slashes, of either kind, follow them (WHATWG "special", but for file). */
const special: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss', 'ftp'])

/** Schemes that name something to fetch, to run or to talk to without `//`. Other `word:word` is no URL to anyone. */
const opaque: ReadonlySet<string> = new Set(
  `about acct android-app blob callto cid content data dav dict facetime feed filesystem finger geo git glob gopher
   imap imaps intent irc ircs jar javascript ldap ldaps mailto market mid mms ms-settings netdoc news nfs nntp
   phar php pop pop3 rsync rtmp rtsp scp search-ms sftp sip sips sms smb smbs smtp smtps snmp ssh ssh2 steam stun
   svn tel telnet tftp turn url urn vbscript view-source wyciwyg xmpp zip`.split(/\s+/),
)

export function windowOf(text: string, effort: Effort): Head {
  return headOf(text, WINDOW, effort)
}

/** What a string contacts if it is a URL as a whole, scheme-relative ones included; undefined where it is none. */
export function targetOf(head: Head): Target | undefined {
  const { text } = head
  if (startsSlashes(text, 0)) return authorityAt(head, 0, null)
  const scheme = schemeAt(text, 0)
  // One letter is a drive.
  if (scheme === undefined || scheme.length < 2) return undefined
  return targetWith(scheme, head)
}

/** What a string contacts where a URL is expected; undefined where it names no host: a path, a query, nothing. */
export function targetUnderName(head: Head, isHost: boolean): Target | undefined {
  const { text } = head
  const scheme = schemeAt(text, 0)
  if (scheme !== undefined && !isPort(text, scheme.length + 1)) {
    return targetWith(scheme, head) ?? { kind: 'opaque', scheme }
  }
  if (startsSlashes(text, 0)) return authorityAt(head, 0, null)
  if (text === '' && !head.isCut) return undefined
  if (!isHost && isRelative(text)) return undefined
  return authorityAt(head, 0, null)
}

function targetWith(scheme: string, head: Head): Target | undefined {
  const { text } = head
  const after = scheme.length + 1
  if (special.has(scheme)) return authorityAt(head, after, scheme)
  if (scheme === 'file' && text[after] !== ' ') return fileAt(head, after)
  if (text.startsWith('//', after)) return authorityAt(head, after, scheme)
  if (isChain(text, after)) return { kind: 'opaque', scheme }
  return opaque.has(scheme) && text[after] !== ' ' ? { kind: 'opaque', scheme } : undefined
}

/** `feed:https://…`: another URL begins where this one's path would. */
function isChain(text: string, from: number): boolean {
  let at = from
  for (let scheme = schemeAt(text, at); scheme !== undefined; scheme = schemeAt(text, at)) {
    at += scheme.length + 1
    if (special.has(scheme) || scheme === 'file' || text.startsWith('//', at)) return true
  }
  return false
}

function authorityAt(head: Head, from: number, scheme: string | null): Target {
  const { text, isCut } = head
  let start = from
  while (isSlash(text, start)) start++
  let end = start
  while (end < text.length && !isEnd(text, end)) end++
  if (end === text.length && isCut) return { kind: 'unclear', why: 'is too long for its host to be told' }
  const authority = text.slice(start, end)
  if (
    authority.indexOf('@') !== authority.lastIndexOf('@') ||
    (text[end] === '\\' && isAtBefore(text, end))
  ) {
    return { kind: 'unclear', why: 'names more than one host, by who reads it' }
  }
  return { kind: 'authority', scheme, authority }
}

/** RFC 3986 knows no backslash: to its readers the authority goes on, and an `@` makes another host of it. */
function isAtBefore(text: string, from: number): boolean {
  for (let at = from; at < text.length && text[at] !== '/' && text[at] !== '?' && text[at] !== '#'; at++)
    if (text[at] === '@') return true
  return false
}

/** A file URL contacts nobody unless it has a host. */
function fileAt(head: Head, after: number): Target {
  if (!startsSlashes(head.text, after)) return { kind: 'file', host: '' }
  const target = authorityAt({ ...head, text: head.text.slice(after + 2) }, 0, 'file')
  // More slashes begin the path, or name a Windows share; then the host is the share's.
  const slashes = countSlashes(head.text, after)
  if (slashes === 3) return { kind: 'file', host: '' }
  return target.kind === 'authority' ? { kind: 'file', host: target.authority } : target
}

function countSlashes(text: string, from: number): number {
  let at = from
  while (isSlash(text, at)) at++
  return at - from
}

/** The scheme that begins there, in lower case; undefined without one. */
export function schemeAt(text: string, from: number): string | undefined {
  if (!isLetter(text.charCodeAt(from))) return undefined
  let at = from + 1
  while (isSchemeUnit(text.charCodeAt(at))) at++
  return text[at] === ':' ? text.slice(from, at).toLowerCase() : undefined
}

/** Of `host:8080`, which has the form of a scheme and a path. */
function isPort(text: string, from: number): boolean {
  let at = from
  while (isDigit(text.charCodeAt(at))) at++
  return at > from && (at === text.length || isEnd(text, at))
}

/** Names a place on a host that someone else chose. */
function isRelative(text: string): boolean {
  return text.startsWith('/') || text.startsWith('?') || text.startsWith('#') || /^\.{1,2}(?:\/|$)/.test(text)
}

function startsSlashes(text: string, at: number): boolean {
  return isSlash(text, at) && isSlash(text, at + 1)
}

function isSlash(text: string, at: number): boolean {
  return text[at] === '/' || text[at] === '\\'
}

function isEnd(text: string, at: number): boolean {
  return isSlash(text, at) || text[at] === '?' || text[at] === '#'
}

function isLetter(unit: number): boolean {
  return (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x61 && unit <= 0x7a)
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39
}

function isSchemeUnit(unit: number): boolean {
  return isLetter(unit) || isDigit(unit) || unit === 0x2b || unit === 0x2d || unit === 0x2e
}
