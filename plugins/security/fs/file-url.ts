// The path that a `file:` URL opens (RFC 8089, read by the WHATWG rules).
import { decodeAscii, headOf } from '../content/text.js'
import type { Effort } from '../content/walk.js'
import { schemeAt } from '../egress/url.js'
import { decoded, MAX_PATH } from './interpretations.js'
import { PathError } from './normalize.js'

/** Whether the text begins with `file:`, be it after other schemes (`jar:file:…`). "File: see below" is prose. */
export function holdsFileUrl(start: string, isNamed: boolean): boolean {
  let at = 0
  for (let scheme = schemeAt(start, 0); scheme !== undefined; scheme = schemeAt(start, at)) {
    at += scheme.length + 1
    if (scheme === 'file') return isNamed || start[at] !== ' '
  }
  return false
}

/**
 * The path in a text that begins as a file URL once it is decoded so often.
 *
 * @throws {PathError} for a URL of which readers do not know, or would not agree, what it opens
 */
export function fileUrlPath(text: string, decodings: number, effort: Effort): string {
  const head = headOf(text, MAX_PATH, effort)
  if (head.isCut) throw new PathError('is too long for a path')
  let url = head.text
  for (let i = 0; i < decodings; i++) url = decodeAscii(url, effort)
  if (schemeAt(url, 0) !== 'file') throw new PathError('holds a file: URL within another')
  if (/[?#]/.test(url)) throw new PathError('is a file: URL with a query or fragment')
  if (url.includes('\0') || !URL.canParse(url)) throw new PathError('is no file: URL that can be read')
  effort.steps += url.length
  const { hostname, pathname } = new URL(url)
  const path = decoded(pathname)
  if (hostname !== '') return `\\\\${hostname}${path}`
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path
}
