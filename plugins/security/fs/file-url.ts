// The path that a `file:` URL opens (RFC 8089, parsed by the WHATWG rules).
import { decodeEscapes, hasPiledUpMarks } from '@svc/core/match'
import type { ScanCounter } from '../content/strings.js'
import { decodeAscii, prefixOf, schemeAt } from '../content/text.js'
import { MAX_PATH } from './interpretations.js'
import { PathError } from './normalize.js'

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
 * The path of a text that is a file URL after `decodings` rounds of decoding.
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
  if (url.includes('\0') || !URL.canParse(url)) throw new PathError('is not a valid file: URL')
  counter.characters += url.length
  const { hostname, pathname } = new URL(url)
  const path = decodeEscapes(pathname)
  if (hostname !== '') return `\\\\${hostname}${path}`
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path
}
