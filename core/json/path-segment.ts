// Encodes an id as a segment of a file or object path.
import { sha256Hex } from './hash.js'

const SAFE = /^[A-Za-z0-9._-]+$/
const MAX_SEGMENT = 200
const KEPT_OF_LONG = 150

/**
 * An id as one path segment: bytes outside `A-Za-z0-9._-` are percent-encoded, and so are `.` and `..`
 * as a whole; the empty id is `%`. A longer id is cut and ends in its SHA-256. Two different ids never give
 * the same segment, as no other id encodes to any of these forms.
 */
export function pathSegment(id: string): string {
  if (id.length <= MAX_SEGMENT && SAFE.test(id) && id !== '.' && id !== '..') return id
  if (id === '') return '%'
  let segment = ''
  for (const byte of Buffer.from(id, 'utf8')) {
    const character = String.fromCharCode(byte)
    segment += SAFE.test(character) ? character : percent(byte)
  }
  if (segment === '.' || segment === '..') return segment.replaceAll('.', percent(0x2e))
  // Longer than any encoded id, so never equal to one.
  return segment.length > MAX_SEGMENT ? `${segment.slice(0, KEPT_OF_LONG)}-${sha256Hex(id)}` : segment
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
}
