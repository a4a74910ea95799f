// E-mail addresses, internationalised ones among them (RFC 5321, RFC 6531).
import type { Detector, Span } from './kinds.js'

/** RFC 5321 §4.5.3.1.1. */
const maxLocalPart = 64
const localCharacter = /[\p{L}\p{M}\p{N}._%+'-]/u
/** The dots are those of IDNA (RFC 3490 §3.1). */
const domain = /[\p{L}\p{M}\p{N}-]{1,63}(?:[.\u3002\uff0e\uff61][\p{L}\p{M}\p{N}-]{1,63}){1,8}/uy
/** A top-level domain has no digits but in Punycode. */
const topLevel = /[.\u3002\uff0e\uff61](?:[\p{L}\p{M}]{2,63}|xn--[a-z\d-]{1,59})(?![\p{L}\p{M}\p{N}])/iu
/** The version of a package (`name@1.0.0-rc.one`), the scale of an image (`logo@2x.png`). */
const versionOrScale = /^(?:v?\d+\.\d+(?:\.|$)|\d(?:\.\d)?x\.(?:png|jpe?g|gif|webp|avif|svg)$)/

export const emailDetector: Detector = { kind: 'email', find: findEmails }

/** Searches from each `@` outward, so that text without one costs nothing. */
function findEmails(text: string): Span[] {
  const spans: Span[] = []
  let min = 0
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
    const start = localPartStart(text, at, Math.max(min, at - maxLocalPart))
    domain.lastIndex = at + 1
    const [host] = (start < at && domain.exec(text)) || []
    if (host === undefined || !topLevel.test(host) || versionOrScale.test(host)) continue
    min = at + 1 + host.length
    spans.push({ start, end: min })
  }
  return spans
}

function localPartStart(text: string, at: number, min: number): number {
  let start = at
  while (start > min) {
    const before = characterBefore(text, start)
    if (!localCharacter.test(before)) break
    start -= before.length
  }
  // An apostrophe at the beginning is a quotation mark.
  while (start < at && text[start] === "'") start++
  return start
}

/** Two code units if they are a character beyond the basic plane. */
function characterBefore(text: string, at: number): string {
  const isPair = (text.codePointAt(at - 2) ?? 0) > 0xffff
  return text.slice(isPair ? at - 2 : at - 1, at)
}
