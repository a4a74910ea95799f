// Secrets that are known by their form. Each pattern can begin only where a run of its characters begins, and its
// repetitions are bounded or end at a character that they cannot contain.
import { type Detector, matchesOf, patternDetector, type Span } from './kinds.js'

export const secretDetectors: readonly Detector[] = [
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
