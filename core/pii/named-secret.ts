// Secrets that are known by the name beside them: members of JSON, headers, variables, parameters and options. In doubt
// a value is redacted.
import { wordsOf } from '../match/words.js'
import { type Detector, matchesOf, type Span } from './kinds.js'

export const namedSecretDetectors: readonly Detector[] = [
  { kind: 'secret', find: findMembers },
  { kind: 'secret', find: findHeaders },
  { kind: 'secret', find: findNamedValues },
]

const HINT =
  /pass|pwd|secret|token|key|auth|cookie|cred|session|ssn|cvv|cvc|\bpin\b|_pin|-pin|Pin\b|otp|mnemonic|seed/i
const SECRET_WORDS = setOf(
  'password,passwd,passphrase,passcode,pwd,secret,secrets,token,authorization,apikey,accesskey,privatekey',
  'cookie,credential,credentials,ssn,cvv,cvc,pin,otp,mnemonic',
)
const SECRET_PAIRS = setOf(
  'api key,access key,private key,audit key,secret key,signing key,encryption key,account key,shared key,master key',
  'session id,set cookie,seed phrase',
)
/** A name that ends in one of these is about a secret and does not contain one: `token_count`, `passwordPolicy`. */
const ABOUT_WORDS = setOf('count,type,usage,limit,length,policy,expiry,expires,expiration,ttl,budget')

function setOf(...lines: string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(',')))
}

/** Whether what has this name is a secret. */
export function isSecretName(name: string): boolean {
  if (!HINT.test(name)) return false
  const words = wordsOf(name)
  if (ABOUT_WORDS.has(words.at(-1) ?? '')) return false
  return words.some((word, i) => SECRET_WORDS.has(word) || SECRET_PAIRS.has(`${word} ${words[i + 1] ?? ''}`))
}

// A member's name and colon, also inside a JSON text that is itself a string, in which quotes are escaped.
const MEMBER = /(\\{0,7})"([\w .@/-]{1,64})\1"[ \t]{0,4}:[ \t]{0,4}/g

/** Values of members of JSON, whatever their type. */
function findMembers(text: string): Span[] {
  const spans: Span[] = []
  let min = 0
  for (const { 0: match, 1: backslashes = '', 2: name = '', index } of matchesOf(text, MEMBER)) {
    const start = index + match.length
    if (index < min || !isSecretName(name)) continue
    const end = valueEnd(text, start, backslashes.length)
    // null, true and false reveal nothing.
    if (end === start || /^(?:null|true|false)$/.test(text.slice(start, Math.min(end, start + 6)))) continue
    spans.push({ start, end, jsonQuote: `${backslashes}"` })
    min = end
  }
  return spans
}

/** The end of the JSON value that begins at `start`; the end of the text if the value was cut off. */
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
      // A closing bracket of the surrounding JSON ends a bare value.
      if (depth === 0) return at
      depth--
      if (depth === 0) return at + 1
    } else if (depth === 0 && /[\s,]/.test(character ?? '')) {
      return at
    }
  }
  return text.length
}

/** Index of the quote that ends a string: the first with no more backslashes before it than the opening quote has. */
function stringEnd(text: string, start: number, escapes: number): number {
  let backslashes = 0
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') backslashes++
    else if (text[at] === '"' && backslashes <= escapes) return at
    else backslashes = 0
  }
  return text.length
}

// Headers whose whole line is secret. A value that begins with a bracket is redacted already.
const HEADER =
  /(?<![\w-])((?:Proxy-)?Authorization|(?:Set-)?Cookie)([ \t]{0,3}[:=](?![ \t]{0,3}\[)[ \t]{0,3})[^\r\n"\\]{1,8192}/gi

function findHeaders(text: string): Span[] {
  return matchesOf(text, HEADER).map(({ 0: match, 1: name = '', 2: sign = '', index }) => ({
    start: index + name.length + sign.length,
    end: index + match.length,
  }))
}

// `name=value` and `Name: value` outside JSON, as in environments, queries and prose; `--name value` of commands. A
// value that begins with a bracket is a list or redacted already.
const NAME =
  /(?<![\w.-])(?:-{0,2}([A-Za-z][\w.-]{1,63})[ \t]{0,3}[=:]|--([A-Za-z][\w.-]{1,63})[ \t](?![ \t]{0,3}-))[ \t]{0,3}(?!\[)/g
const VALUE = /[^\s"',;&<>\\]*/y
const QUOTE = /\\{0,7}["']/y

function findNamedValues(text: string): Span[] {
  const spans: Span[] = []
  let min = 0
  for (const { 0: match, 1: assigned, 2: option = '', index } of matchesOf(text, NAME)) {
    if (index < min || !isSecretName(assigned ?? option)) continue
    const value = valueAt(text, index + match.length)
    if (value.end <= value.start) continue
    spans.push(value)
    min = value.end
  }
  return spans
}

/** The value that begins at `at`, without its quotes; empty if there is none. */
function valueAt(text: string, at: number): Span {
  QUOTE.lastIndex = at
  const quote = QUOTE.exec(text)?.[0] ?? ''
  const start = at + quote.length
  // In JSON the name may end its string: `{"q":"password=","n":1}`.
  if (quote === '"' && /^(?:[,}\]:]|$)/.test(text.slice(start, start + 1))) return { start, end: start }
  const close = quote === '' ? -1 : text.indexOf(quote, start)
  if (close >= 0) return { start, end: close }
  // A quoted value that was cut off extends to the end; a lone apostrophe does not quote.
  if (quote.endsWith('"')) return { start, end: text.length }
  VALUE.lastIndex = start
  return { start, end: start + (VALUE.exec(text)?.[0].length ?? 0) }
}
