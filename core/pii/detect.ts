// Finds personal data and secrets in a text, by their form and by the names of what holds them. The text is hostile
// input: every detector takes time linear in it. Data without a recognizable form is not found: a person's name, a
// postal address, a secret that looks like a word.
import { ibanDetector, paymentCardDetector } from './account-numbers.js'
import { emailDetector } from './email.js'
import { type Detector, type PiiKind, patternDetector, type Span } from './kinds.js'
import { namedSecretDetectors } from './named-secret.js'
import { privateKeyDetector, secretDetectors } from './secret.js'

/**
 * Social security numbers of the United States, and taxpayer numbers (ITIN), which have the same form. An area 000 or 666,
 * a group 00 and a serial number 0000 are never given out.
 */
const usSsnDetector = patternDetector(
  'us_ssn',
  /(?<!\d-?)(?:(?!000|666|9)\d{3}[-\u2010-\u2013](?!00)\d{2}|9\d{2}[-\u2010-\u2013](?:[5-8]\d|9[0-24-9]))[-\u2010-\u2013](?!0000)\d{4}(?!-?\d)/g,
)

/**
 * Telephone numbers: international ones (ITU-T E.164), and those of North America as they are written there. Other
 * national numbers look like any number.
 */
const phoneDetectors: readonly Detector[] = [
  // No country code begins with 0, unlike the offset of a time zone.
  patternDetector(
    'phone',
    /(?<![\p{L}\p{N}])\+[1-9](?:(?:[ \u00a0]{1,2}|[ \u00a0-]?\(|\)[ \u00a0-]?|[./\u2010-\u2013-])?\d){6,14}(?!\d)/gu,
  ),
  patternDetector(
    'phone',
    /(?<![\w-]|\d\.)(?:1[ .\u00a0-])?(?:\(\d{3}\)[ \u00a0-]?|\d{3}[ .\u00a0\u2010-\u2013-])\d{3}[ .\u00a0\u2010-\u2013-]\d{4}(?=x\d|(?!-?\w))/g,
  ),
]

/** The detectors in order: matches of one are hidden from the next ones. */
const detectors: readonly Detector[] = [
  privateKeyDetector,
  ...secretDetectors,
  emailDetector,
  ibanDetector,
  paymentCardDetector,
  usSsnDetector,
  ...phoneDetectors,
  ...namedSecretDetectors,
]

export interface PiiMatch extends Span {
  readonly kind: PiiKind
}

/** The matches in order, without overlap; of all kinds if no kinds are given. */
export function detectPii(text: string, kinds?: readonly PiiKind[]): PiiMatch[] {
  const matches: PiiMatch[] = []
  let rest = withoutEscapes(text)
  for (const { kind, find } of detectors) {
    if (kinds?.includes(kind) === false) continue
    const spans = find(rest)
    for (const span of spans) matches.push({ kind, ...span })
    rest = mask(rest, spans)
  }
  return matches.length > 1 ? merge(matches) : matches
}

export interface RedactOptions {
  /** Default: all kinds. */
  readonly kinds?: readonly PiiKind[]
  /** Default: `[redacted:<kind>]`, and `[redacted]` for a secret beside its name. */
  readonly replacement?: string
}

/** The text with a replacement for each match. */
export function redactPii(text: string, { kinds, replacement }: RedactOptions = {}): string {
  let redacted = ''
  let copied = 0
  for (const { kind, start, end, jsonQuote = '' } of detectPii(text, kinds)) {
    redacted += text.slice(copied, start) + jsonQuote + (replacement ?? labelOf(kind)) + jsonQuote
    copied = end
  }
  return redacted + text.slice(copied)
}

function labelOf(kind: PiiKind): string {
  return kind === 'secret' ? '[redacted]' : `[redacted:${kind}]`
}

/**
 * A character that does not belong to a word, so that the text beside a match is at a boundary. The mask is as long as
 * the match, so positions stay the same.
 */
const MASK = '\0'

/** In JSON text a line may begin `\n555-…`: the letter of the escape is not a part of the number. */
function withoutEscapes(text: string): string {
  return text.includes('\\') ? text.replaceAll(/\\[bfnrt]/g, `\\${MASK}`) : text
}

function mask(text: string, spans: readonly Span[]): string {
  if (spans.length === 0) return text
  let masked = ''
  let copied = 0
  for (const { start, end } of spans) {
    masked += text.slice(copied, start) + MASK.repeat(end - start)
    copied = end
  }
  return masked + text.slice(copied)
}

/** A match that contains others takes their place; of two with the same bounds the first found stays. */
function merge(matches: readonly PiiMatch[]): PiiMatch[] {
  const merged: PiiMatch[] = []
  for (const match of matches.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = merged.at(-1)
    if (last === undefined || match.start >= last.end) merged.push(match)
    else if (match.end > last.end) merged[merged.length - 1] = { ...last, end: match.end }
  }
  return merged
}
