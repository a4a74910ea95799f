// The paths that programs may derive from a text before they open it. The allowlist must allow all of them.
import { isUrl } from '@svc/core/json'
import { decodeEscapes, hasPiledUpMarks } from '@svc/core/match'
import type { ScanCounter } from '../content/strings.js'
import { decodeAscii, prefixOf, schemeAt, trimmed } from '../content/text.js'
import { PathError } from './normalize.js'

/** In UTF-16 units: the longest path that Windows opens; Linux opens 4096 bytes. */
const MAX_PATH = 32_767

/** Programs may decode a path this often before they open it. */
const MAX_DECODINGS = 2

/**
 * The text as it is, trimmed, and percent-decoded once and twice; each also with compatibility characters, such as
 * full-width dots and slashes, folded.
 *
 * @throws {EscapeError} for text that cannot be decoded
 * @throws {PathError} for text that is encoded more than twice
 */
export function interpretationsOf(text: string, counter: ScanCounter): Set<string> {
  if (text.length > MAX_PATH) throw new PathError('is too long for a path')
  const found = new Set<string>()
  addDecoded(text, found, counter)
  const inner = trimmed(text, counter)
  if (inner !== text) addDecoded(inner, found, counter)
  return found
}

const ASCII = /^[\0-\x7f]*$/

function addDecoded(text: string, found: Set<string>, counter: ScanCounter): void {
  let level = text
  for (let decodings = 0; ; decodings++) {
    counter.characters += level.length
    found.add(level)
    if (!ASCII.test(level)) {
      // Normalizing them, which the rule does for each reading, costs the square of their number.
      if (hasPiledUpMarks(level)) throw new PathError('has too many combining marks in a row')
      found.add(level.normalize('NFKC'))
    }
    const next = decodeEscapes(level)
    if (next === level) return
    if (decodings === MAX_DECODINGS) throw new PathError('is percent-encoded more than twice')
    level = next
  }
}

/** Whether the text starts with `file:`, also after other schemes (`jar:file:…`). "File: see below" is prose. */
export function startsWithFileUrl(text: string, isPathKey: boolean): boolean {
  let at = 0
  for (let scheme = schemeAt(text, 0); scheme !== undefined; scheme = schemeAt(text, at)) {
    at += scheme.length + 1
    if (scheme === 'file') return isPathKey || text[at] !== ' '
  }
  return false
}

/**
 * The path that a `file:` URL opens (RFC 8089, parsed by the WHATWG rules); the text is one after `decodings` rounds of decoding.
 *
 * @throws {PathError} for a URL that is invalid or that programs open differently
 * @throws {EscapeError}
 */
export function fileUrlPath(text: string, decodings: number, counter: ScanCounter): string {
  const prefix = prefixOf(text, MAX_PATH, counter)
  if (prefix.isTruncated) throw new PathError('is too long for a path')
  let url = prefix.text
  for (let i = 0; i < decodings; i++) url = decodeAscii(url, counter)
  if (schemeAt(url, 0) !== 'file') throw new PathError('has a file: URL inside another URL')
  if (/[?#]/.test(url)) throw new PathError('is a file: URL with a query or fragment')
  // The parser normalizes the host, at quadratic cost.
  if (hasPiledUpMarks(url)) throw new PathError('has too many combining marks in a row')
  if (url.includes('\0') || !isUrl(url)) throw new PathError('is not a valid file: URL')
  counter.characters += url.length
  const { hostname, pathname } = new URL(url)
  const path = decodeEscapes(pathname)
  if (hostname !== '') return `\\\\${hostname}${path}`
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path
}
