// Private keys in PEM (RFC 7468), to their end line or, where that was cut off, to the end of the text.
import { type Detector, matchesOf, type Span } from './kinds.js'

const BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g
const END = '-----END '
const DASHES = '-----'

export const privateKeyDetector: Detector = { kind: 'private_key', find: findPrivateKeys }

function findPrivateKeys(text: string): Span[] {
  const spans: Span[] = []
  let min = 0
  for (const { index } of matchesOf(text, BEGIN)) {
    if (index < min) continue
    const foot = text.indexOf(END, index)
    const close = foot < 0 ? -1 : text.indexOf(DASHES, foot + END.length)
    min = close < 0 ? text.length : close + DASHES.length
    spans.push({ start: index, end: min })
  }
  return spans
}
