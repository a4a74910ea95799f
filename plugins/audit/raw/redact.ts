// Takes secrets and personal data out of a text: by the name of the member that holds them, and by their
// own form. Every pattern is linear in the text, as the text is a stranger's: each can begin only where a
// run of its characters begins, and what may repeat is bounded or ends at a character it cannot hold.
//
// A list of our own, since the kept ones scan files asynchronously or know no personal data. It errs on the
// side of taking out; what no rule can know (a name, a postal address, a secret that looks like a word) stays.

import { wordsOf } from '@svc/core/match'

interface Pattern {
  readonly kind: string
  readonly form: RegExp
  /** What the form alone cannot tell, such as a check digit. */
  readonly isReal?: (match: string) => boolean
}

/** `text` with `[redacted:<kind>]` in place of what was found. */
export function redact(text: string): string {
  let clean = withoutKeyBlocks(text)
  for (const { kind, form, isReal } of patterns) {
    clean = clean.replace(form, (match: string) =>
      isReal === undefined || isReal(match) ? `[redacted:${kind}]` : match,
    )
  }
  return withoutNamed(withoutMembers(clean))
}

const patterns: readonly Pattern[] = [
  // A JWT (RFC 7515): three parts, fewer where the text was cut.
  { kind: 'token', form: /(?<![\w-])eyJ[\w-]{10,}(?:\.[\w-]*){0,4}/g },
  // The credentials of an Authorization header (RFC 9110 §11.4).
  { kind: 'credential', form: /\b(?:Bearer|Basic|Token|ApiKey) {1,4}[\w+/.~=-]{8,}/gi },
  // User information in a URL (RFC 3986 §3.2.1).
  { kind: 'credential', form: /(?<=:\/\/)[^\s:@/"'\\]{0,128}:[^\s@/"'\\]{1,256}(?=@)/g },
  // The same for curl and its like.
  { kind: 'credential', form: /(?<=(?<![\w-])(?:-u|--user)[ =]{1,3})[^\s:"'\\]{1,64}:[^\s"'\\]{1,256}/g },
  { kind: 'aws_key', form: /\b(?:AKIA|ASIA|AIDA|AROA|AGPA|ANPA|ANVA)[A-Z0-9]{16}\b/g },
  { kind: 'github_token', form: /\b(?:gh[opsur]_\w{20,255}|github_pat_\w{20,255})/g },
  { kind: 'gitlab_token', form: /\bgl(?:pat|ptt|dt|rt|soat)-[\w-]{20,255}/g },
  { kind: 'slack_token', form: /\bx(?:ox[abeoprs]|app)-[\w-]{10,255}/g },
  { kind: 'slack_webhook', form: /hooks\.slack\.com\/services\/[\w/]{20,255}/g },
  { kind: 'stripe_key', form: /\b(?:[sr]k_(?:live|test)|whsec)_\w{16,255}/g },
  // OpenAI, Anthropic and others after their example.
  { kind: 'api_key', form: /\bsk-[\w-]{20,255}/g },
  { kind: 'google_key', form: /\b(?:AIza[\w-]{35}|ya29\.[\w-]{20,512}|GOCSPX-[\w-]{20,64})/g },
  { kind: 'npm_token', form: /\bnpm_[A-Za-z0-9]{36}\b/g },
  {
    kind: 'api_key',
    form: /\b(?:hf_[A-Za-z0-9]{30,64}|dop_v1_[0-9a-f]{64}|SG\.[\w-]{16,64}\.[\w-]{16,64})/g,
  },
  { kind: 'api_key', form: /\bsvck_[\w-]{20,255}/g },
  { kind: 'email', form: /(?<![\w.%+-])[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g },
  { kind: 'iban', form: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, isReal: isIban },
  // Payment cards begin with 2 to 6 (ISO/IEC 7812); milliseconds since the epoch do not.
  { kind: 'card', form: /(?<![\d.])[2-6](?:[ -]?\d){12,18}(?!\d)/g, isReal: isCard },
  { kind: 'ssn', form: /(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])/g },
  { kind: 'phone', form: /(?<![\w+])\+\d(?:[ ().-]{0,2}\d){7,14}(?!\d)/g },
  { kind: 'phone', form: /(?<![\w-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])/g },
]

/** The check digit of ISO/IEC 7812-1 (Luhn). */
function isCard(text: string): boolean {
  let sum = 0
  const digits = text.replaceAll(/\D/g, '')
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const doubled = i % 2 === 1 ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}

/** The check digits of ISO 13616 (ISO 7064, mod 97-10). */
function isIban(text: string): boolean {
  const plain = text.replaceAll(' ', '')
  let rest = 0
  for (const character of plain.slice(4) + plain.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}

const KEY_BLOCK = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g

/** Private keys in PEM (RFC 7468), to their end line or, where that was cut off, to the end. */
function withoutKeyBlocks(text: string): string {
  let out = ''
  let at = 0
  for (const begin of text.matchAll(KEY_BLOCK)) {
    if (begin.index < at) continue
    const foot = text.indexOf('-----END ', begin.index)
    const close = foot < 0 ? -1 : text.indexOf('-----', foot + '-----END '.length)
    out += `${text.slice(at, begin.index)}[redacted:private_key]`
    at = close < 0 ? text.length : close + '-----'.length
  }
  return out + text.slice(at)
}

const TELLING =
  /pass|pwd|secret|token|key|auth|cookie|cred|session|ssn|cvv|cvc|\bpin\b|_pin|-pin|Pin\b|otp|mnemonic|seed/i
const TELLING_WORDS = listed(
  'password,passwd,passphrase,passcode,pwd,secret,secrets,token,authorization,apikey,accesskey,privatekey',
  'cookie,credential,credentials,ssn,cvv,cvc,pin,otp,mnemonic',
)
const TELLING_PAIRS = listed(
  'api key,access key,private key,secret key,signing key,encryption key,account key,shared key,master key',
  'session id,set cookie,seed phrase',
)

function listed(...lines: string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(',')))
}

/** Whether what a member of this name holds is a secret: by its words, as everywhere in this project. */
function isTelling(name: string): boolean {
  if (!TELLING.test(name)) return false
  const words = wordsOf(name)
  return words.some(
    (word, i) => TELLING_WORDS.has(word) || TELLING_PAIRS.has(`${word} ${words[i + 1] ?? ''}`),
  )
}

// A member's name and colon, also inside a JSON text that is itself a string, where quotes are escaped.
const MEMBER = /(\\{0,7})"([\w .@/-]{1,64})\1"[ \t]{0,4}:[ \t]{0,4}/g

/** Values of telling members of JSON, whatever their type. */
function withoutMembers(text: string): string {
  let out = ''
  let at = 0
  for (const member of text.matchAll(MEMBER)) {
    const [whole, backslashes = '', name = ''] = member
    const start = member.index + whole.length
    if (member.index < at || !isTelling(name)) continue
    const end = valueEnd(text, start, backslashes.length)
    // null, true and false tell nothing.
    if (end === start || /^(?:null|true|false)$/.test(text.slice(start, Math.min(end, start + 6)))) continue
    out += `${text.slice(at, start)}${backslashes}"[redacted]${backslashes}"`
    at = end
  }
  return out + text.slice(at)
}

/** Where the JSON value that begins at `start` ends; the end of the text where it was cut. */
function valueEnd(text: string, start: number, escapes: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const character = text[at]
    if (character === '\\' && text[at + escapes] === '"') at += escapes
    if (text[at] === '"') {
      at = stringEnd(text, at + 1, escapes)
      if (depth === 0) return Math.min(at + 1, text.length)
    } else if (character === '{' || character === '[') {
      depth++
    } else if (character === '}' || character === ']') {
      // One that closes what is around ends a bare value.
      if (depth === 0) return at
      depth--
      if (depth === 0) return at + 1
    } else if (depth === 0 && /[\s,]/.test(character ?? '')) {
      return at
    }
  }
  return text.length
}

/** Index of the quote that ends a string: the first with no more backslashes before it than open it. */
function stringEnd(text: string, start: number, escapes: number): number {
  let backslashes = 0
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') backslashes++
    else if (text[at] === '"' && backslashes <= escapes) return at
    else backslashes = 0
  }
  return text.length
}

// Headers whose whole line is secret.
const LINE =
  /(?<![\w-])((?:Proxy-)?Authorization|(?:Set-)?Cookie)([ \t]{0,3}[:=][ \t]{0,3})[^\r\n"\\]{1,8192}/gi
// `name=value` and `Name: value` outside JSON, as in environments, queries and prose; `--name value` of commands.
const NAME =
  /(?<![\w.-])(?:-{0,2}([A-Za-z][\w.-]{1,63})[ \t]{0,3}[=:]|--([A-Za-z][\w.-]{1,63})[ \t](?![ \t]{0,3}-))[ \t]{0,3}(?!\[)/g
const VALUE = /[^\s"',;&<>\\]*/y
const QUOTE = /\\{0,7}["']/y

function withoutNamed(text: string): string {
  const lines = text.replace(LINE, (_, name: string, sign: string) => `${name}${sign}[redacted]`)
  let out = ''
  let at = 0
  for (const named of lines.matchAll(NAME)) {
    const start = named.index + named[0].length
    if (named.index < at || !isTelling(named[1] ?? named[2] ?? '')) continue
    const value = namedValue(lines, start)
    if (value.end <= value.start) continue
    out += `${lines.slice(at, value.start)}[redacted]`
    at = value.end
  }
  return out + lines.slice(at)
}

/** The value that begins at `at`, without its quotes; empty where there is none. */
function namedValue(text: string, at: number): { start: number; end: number } {
  QUOTE.lastIndex = at
  const quote = QUOTE.exec(text)?.[0] ?? ''
  const start = at + quote.length
  // In JSON the name may end its string: `{"q":"password=","n":1}`.
  if (quote === '"' && /^(?:[,}\]:]|$)/.test(text.slice(start, start + 1))) return { start, end: start }
  const close = quote === '' ? -1 : text.indexOf(quote, start)
  if (close >= 0) return { start, end: close }
  // One that was cut off goes on to the end; a lone apostrophe quotes nothing.
  if (quote.endsWith('"')) return { start, end: text.length }
  VALUE.lastIndex = start
  return { start, end: start + (VALUE.exec(text)?.[0].length ?? 0) }
}
