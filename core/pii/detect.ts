// Finds personal data and secrets in a text, by their form and by the names of what holds them. The text is hostile
// input: every detector takes time linear in it. Data without a recognizable form is not found: a person's name, a
// postal address, a secret that looks like a word.
import { ibanDetector, paymentCardDetector } from './account-numbers.js'
import { type Detector, matchesOf, type PiiKind, patternDetector, type Span } from './kinds.js'
import { namedSecretDetectors } from './named-secret.js'

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

/** RFC 5321 §4.5.3.1.1. */
const maxLocalPart = 64
const localCharacter = /[\p{L}\p{M}\p{N}._%+'-]/u
/** The dots are those of IDNA (RFC 3490 §3.1). */
const domain = /[\p{L}\p{M}\p{N}-]{1,63}(?:[.\u3002\uff0e\uff61][\p{L}\p{M}\p{N}-]{1,63}){1,8}/uy
/** A top-level domain has no digits but in Punycode. */
const topLevel = /[.\u3002\uff0e\uff61](?:[\p{L}\p{M}]{2,63}|xn--[a-z\d-]{1,59})(?![\p{L}\p{M}\p{N}])/iu
/** The version of a package (`name@1.0.0-rc.one`), the scale of an image (`logo@2x.png`). */
const versionOrScale = /^(?:v?\d+\.\d+(?:\.|$)|\d(?:\.\d)?x\.(?:png|jpe?g|gif|webp|avif|svg)$)/

/** E-mail addresses, internationalised ones among them (RFC 5321, RFC 6531). */
const emailDetector: Detector = { kind: 'email', find: findEmails }

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

/**
 * Secrets that are known by their form. Each pattern can begin only where a run of its characters begins, and its
 * repetitions are bounded or end at a character that they cannot contain.
 */
const secretDetectors: readonly Detector[] = [
  // A JWT (RFC 7515): three parts, fewer if the text was cut.
  patternDetector('jwt', /(?<![\w-])eyJ[\w-]{10,}(?:\.[\w-]*){0,4}/g),
  // The credentials of an Authorization header (RFC 9110 §11.4).
  patternDetector('credential', /\b(?:Bearer|Basic|Token|ApiKey) {1,4}[\w+/.~=-]{8,}/gi, isCredential),
  // User information in a URL (RFC 3986 §3.2.1).
  patternDetector('credential', /(?<=:\/\/)[^\s:@/"'\\]{0,128}:[^\s@/"'\\]{1,256}(?=@)/g),
  // User and password for curl and similar programs. Two numbers are a user and a group, and a URL has its own rule.
  patternDetector(
    'credential',
    /(?<=(?<![\w-])(?:-u|--user)[ =]{1,3})[^\s:"'\\]{1,64}:[^\s"'\\]{1,256}/g,
    (match) => !/^(?:\d+:\d+$|\w+:\/\/)/.test(match),
  ),
  patternDetector('aws_key', /\b(?:AKIA|ASIA|AIDA|AROA|AGPA|ANPA|ANVA)[A-Z0-9]{16}\b/g),
  patternDetector('github_token', /\b(?:gh[opsur]_\w{20,255}|github_pat_\w{20,255})/g),
  patternDetector('gitlab_token', /\bgl(?:pat|ptt|dt|rt|soat)-[\w-]{20,255}/g),
  patternDetector('slack_token', /\bx(?:ox[abeoprs]|app)-[\w-]{10,255}/g),
  patternDetector('slack_webhook', /hooks\.slack\.com\/services\/[\w/]{20,255}/g),
  patternDetector('stripe_key', /\b(?:[sr]k_(?:live|test)|whsec)_\w{16,255}/g),
  // OpenAI, Anthropic and others after their example; in lower case only it is a name, for example of a package.
  patternDetector('api_key', /\bsk-[\w-]{20,255}/g, (match) => /[A-Z\d]/.test(match)),
  patternDetector('google_key', /\b(?:AIza[\w-]{35}|ya29\.[\w-]{20,512}|GOCSPX-[\w-]{20,64})/g),
  patternDetector('npm_token', /\bnpm_[A-Za-z0-9]{36}\b/g),
  patternDetector(
    'api_key',
    /\b(?:hf_[A-Za-z0-9]{30,64}|dop_v1_[0-9a-f]{64}|SG\.[\w-]{16,64}\.[\w-]{16,64})/g,
  ),
  patternDetector('api_key', /\bsvck_[\w-]{20,255}/g),
]

/** Excludes the next word of prose, as in "basic understanding" or "token TypeScript". */
function isCredential(match: string): boolean {
  const value = match.slice(match.lastIndexOf(' ') + 1)
  return /[\d=_]|[a-z][A-Z].*[a-z][A-Z]/.test(value)
}

const BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g
const END = '-----END '
const DASHES = '-----'

/** Private keys in PEM (RFC 7468), to their end line or, if that was cut off, to the end of the text. */
const privateKeyDetector: Detector = { kind: 'private_key', find: findPrivateKeys }

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
