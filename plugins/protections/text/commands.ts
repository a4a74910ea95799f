// Commands in arguments that are written so that a reader or a filter does not recognize them.
import { matchesOf, type Span } from '@svc/core/pii'
import { letterOf, SKIPPED } from './letters.js'

/** Programs that attacks run; what a shell would run after reading the text is compared with these. */
const PROGRAMS = new Set(
  'cat tac nl head tail less more od xxd strings curl wget nc ncat netcat socat telnet ssh scp sftp ftp rsync bash sh zsh dash ksh csh fish python python2 python3 perl ruby php node lua awk gawk sed rm dd mkfs shred chmod chown chattr kill pkill killall sudo su passwd useradd usermod whoami id uname hostname ifconfig ip netstat ps env printenv set export base64 openssl tar zip gzip find xargs eval exec source crontab at systemctl service mount docker kubectl powershell pwsh cmd certutil bitsadmin reg rundll32 mshta iex invoke-expression ls cp mv ln touch tee echo printf'.split(
    ' ',
  ),
)
const PATHS = /\/(?:etc\/(?:passwd|shadow|sudoers|hosts)|root\/|bin\/|dev\/tcp\/|proc\/self)/
/** A word that may be the name of a program, with or without its folder. */
const PROGRAM_WORD = /(?<![\w./-])(?:\/?(?:usr\/)?(?:local\/)?s?bin\/)?([\w-]+)/gi
/** Signs that a shell reads away, or that stand for other text. Texts without one are as they look. */
const SIGNS = /[\\'"`$^{?*]|[\u00aa-\u058f\u1d00-\u1d7f\u2100-\u214f\u24b6-\u24e9\ud835\uff01-\uff5e]/

/** Findings of one text; further ones tell nothing more. */
const MAX_SPANS = 100

/**
 * Text that names a program or a file of the system only after a shell has read it: quotes or backslashes within a word,
 * `$IFS`, escapes, braces, variables, encoded commands, full-width letters, patterns in place of letters.
 */
export function obfuscatedCommands(text: string): Span[] {
  if (!SIGNS.test(text) && !/base64|xxd|-e(?:nc|c)/i.test(text)) return []
  const piped = pipedToShell(text, DECODER)
  const spans = [...(piped === undefined ? [] : [piped]), ...firstOfEach(text, HANDED_TO_SHELL)]
  const assigned = new Set<string>()
  const plain = asShellReads(text, assigned)
  if (plain === undefined) return [...spans, { start: 0, end: text.length }]
  if (plain === text) return spans
  // A shell reads each line as one.
  for (let [start, at] = [0, 0]; start <= text.length && spans.length < MAX_SPANS; ) {
    const [end, plainEnd] = [lineEnd(text, start), lineEnd(plain, at)]
    const line = text.slice(start, end)
    if (plainEnd - at !== line.length || !plain.startsWith(line, at)) {
      // Backslashes separate the parts of such paths.
      const isPath = /^[a-z]:\\|^\\\\/i.test(line)
      if (!isPath && reveals(line, plain.slice(at, plainEnd), assigned)) spans.push({ start, end })
    }
    start = end + 1
    at = plainEnd + 1
  }
  return spans
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

function firstOfEach(text: string, patterns: readonly RegExp[]): Span[] {
  return patterns.flatMap((pattern) => {
    const match = pattern.exec(text)
    return match === null ? [] : [{ start: match.index, end: match.index + match[0].length }]
  })
}

const LIST_OF_PROGRAM = new RegExp(
  String.raw`(?<![\w$])\{(?:${[...PROGRAMS].join('|')}),[-/~.$][^{}\s]{0,200}\}`,
)

const HANDED_TO_SHELL = [
  /[\w/=]\$\{?IFS\b/,
  LIST_OF_PROGRAM,
  /[`(][^`()\n]{0,200}(?:base64\s{1,4}(?:-d|-D|--decode)|xxd\s{1,4}-r)/i,
  /(?:powershell|pwsh)(?:\.exe)?\s[^\n]{0,80}-e(?:nc(?:odedcommand)?|c)?\s{1,4}[A-Za-z0-9+/=]{12,}/i,
  /(?:python[23]?|perl|ruby|node|php)\s{1,4}-[cer]\s[^\n]{0,60}(?:base64|b64decode|fromCharCode|decode\(|chr\()/i,
  /\beval\s{1,4}["'(]?\$?\(?[^\n]{0,60}(?:base64|printf|echo|xxd|rev)/i,
]

/** What decodes text, at the end of what is piped to a shell. */
const DECODER =
  /(?:(?:base64\s{1,4}(?:-d|--decode)|xxd\s{1,4}-r|openssl\s{1,4}(?:enc|base64)\s[^\n]{0,40}-d|rev)[^\n]{0,40}|tr\s[^\n]{1,100})$/i
const PIPE = /\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da|k)?sh\b/gi
/** Characters before a pipe that are looked at. */
const BEFORE_PIPE = 410

/** A command that a shell reads as its input, from what `source` matches; each is looked at once, between its pipes. */
function pipedToShell(text: string, source: RegExp): Span | undefined {
  PIPE.lastIndex = 0
  for (let pipe = PIPE.exec(text); pipe !== null; pipe = PIPE.exec(text)) {
    const from = Math.max(0, pipe.index - BEFORE_PIPE)
    const before = text.slice(from, pipe.index)
    const begin = before.lastIndexOf('|') + 1
    const match = source.exec(before.slice(begin))
    if (match !== null) return { start: from + begin + match.index, end: pipe.index + pipe[0].length }
  }
  return undefined
}

/**
 * Programs and files that a line as a shell reads it has, and the line as it is written has not. A value that is assigned as it
 * is, such as `PYTHON=python3`, is visible there.
 */
function reveals(written: string, plain: string, assigned: ReadonlySet<string>): boolean {
  const lower = written.toLowerCase()
  const visible = new Set<string>()
  for (const { 1: word = '' } of matchesOf(plain, PROGRAM_WORD)) {
    const program = word.toLowerCase()
    if (!PROGRAMS.has(program) || visible.has(program) || assigned.has(program)) continue
    if (!hasWord(lower, program)) return true
    visible.add(program)
  }
  const path = PATHS.exec(plain)
  return path !== null && !lower.includes(path[0])
}

function hasWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!isSmallLetter(text.charCodeAt(at - 1)) && !isSmallLetter(text.charCodeAt(at + word.length)))
      return true
  }
  return false
}

function isSmallLetter(unit: number): boolean {
  return unit >= 0x61 && unit <= 0x7a
}

/** About what a POSIX shell makes of lines before it runs them; nothing is run. Undefined for text that grows too much. */
function asShellReads(text: string, assigned: Set<string>): string | undefined {
  let plain: string | undefined = /[^\0-\x7f]/.test(text) ? inLatin(text.normalize('NFKC')) : text
  if (plain.includes('$')) {
    plain = plain.replace(/\$'((?:[^'\\\n]|\\.){0,400})'/g, (_quoted, inner: string) => fromEscapes(inner))
    plain = plain.replace(/\$\{?IFS\}?(?:\$\d)?/g, ' ')
  }
  if (/[$`]/.test(plain)) {
    plain = plain.replace(
      /(?<=\w)(?:`[ \t]{0,4}(?:echo|printf|true|:)?[ \t]{0,4}`|\$\([ \t]{0,4}(?:echo|printf|true|:)?[ \t]{0,4}\))(?=\w)/g,
      '',
    )
    plain = plain.replace(/\$[@*]|\$\{?\d\}?/g, '')
    plain = plain.replace(
      /(?:\$\(|`)[ \t]{0,4}(?:echo|printf)[ \t]{1,4}(?:-[neE]{1,3}[ \t]{1,4})?(["']?)([^`()"'\n]{0,200})\1[ \t]{0,4}[)`]/g,
      (_run, _quote, words: string) => fromEscapes(words),
    )
    plain = withVariables(plain, assigned)
    if (plain === undefined) return undefined
  }
  if (plain.includes('{'))
    plain = plain.replace(/\{([^{}\s,]{1,64}(?:,[^{}\s,]{0,200}){1,16})\}/g, (_braces, inner: string) =>
      inner.replaceAll(',', ' '),
    )
  // Quotes and backslashes within or around a word are read away; a pair around several words keeps them apart.
  if (/["']/.test(plain))
    plain = plain.replace(
      /(?<=\w)(["'])\1|(?<=\w)(["'])(\w{1,32})\2|(["'])(\w{1,32})\4(?=\w)/g,
      (_whole, _a, _b, inner = '', _c, before = '') => `${inner}${before}`,
    )
  if (plain.includes('\\')) plain = plain.replace(/\\(?=[A-Za-z/])(?![nrtbfv0](?![a-z]))/g, '')
  if (plain.includes('^')) plain = plain.replace(/\w(?:\^\w){2,}/g, (word) => word.replaceAll('^', ''))
  return /[?[]/.test(plain) ? withoutPatterns(plain) : plain
}

/** Words in which letters of other scripts look like Latin ones; not those of two letters, which other languages have. */
function inLatin(text: string): string {
  let latin = ''
  let copied = 0
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) < 0x80) continue
    let start = at
    while (start > copied && isOfWord(text.charCodeAt(start - 1))) start--
    let end = at
    while (end < text.length && isOfWord(text.charCodeAt(end))) end++
    const word = end - start < 3 ? undefined : latinWord(text, start, end)
    if (word !== undefined) {
      latin += text.slice(copied, start) + word
      copied = end
    }
    at = Math.max(at, end)
  }
  return latin + text.slice(copied)
}

function isOfWord(unit: number): boolean {
  if (unit >= 0x80) return unit >= 0xaa && unit <= 0x1dff
  return letterOf(unit) > SKIPPED || unit === 0x5f
}

/** Undefined for a word with other letters. */
function latinWord(text: string, start: number, end: number): string | undefined {
  let word = ''
  for (let at = start; at < end; at++) {
    const letter = letterOf(text.charCodeAt(at))
    if (letter <= SKIPPED || letter > 0x7f) return undefined
    word += String.fromCharCode(letter)
  }
  return word
}

function fromEscapes(text: string): string {
  return text.replace(
    /\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|0?([0-7]{3}))/g,
    (_escape, x?: string, u?: string, octal?: string) =>
      String.fromCharCode(
        octal === undefined ? Number.parseInt(x ?? u ?? '', 16) : Number.parseInt(octal, 8),
      ).replace(/[\r\n]/, ' '),
  )
}

const ASSIGNED = /(?<![\w$])([A-Za-z_]\w{0,31})=["']?([\w./-]{1,64})["']?(?=[;&\s]|$)/g
/** Text with short names of long values grows; hardly one that a person writes grows more. */
const MAX_GROWTH = 2

/** Undefined for a text that grows too much. `assigned` gets the values. */
function withVariables(text: string, assigned: Set<string>): string | undefined {
  const values = new Map<string, string>()
  if (text.includes('='))
    for (const { 1: name = '', 2: value = '' } of matchesOf(text, ASSIGNED))
      if (values.size < 64) {
        values.set(name, value)
        assigned.add(value.toLowerCase())
      }
  if (values.size === 0) return text
  let left = text.length * MAX_GROWTH + 1024
  const plain = text.replace(/\$\{?([A-Za-z_]\w{0,31})\}?/g, (whole, name: string) => {
    const value = values.get(name) ?? whole
    left -= value.length
    return left < 0 ? '' : value
  })
  return left < 0 ? undefined : plain
}

const KNOWN_PATHS = [
  '/bin/cat',
  '/bin/sh',
  '/bin/bash',
  '/usr/bin/curl',
  '/usr/bin/wget',
  '/usr/bin/id',
  '/usr/bin/whoami',
  '/bin/nc',
  '/etc/passwd',
  '/etc/shadow',
  '/etc/hosts',
]

/** Patterns of a shell, with a question mark or a class in place of a letter, as the path that they stand for. */
function withoutPatterns(text: string): string {
  return text.replace(/\/[\w?[\]-]{2,8}(?:\/[\w?[\]-]{2,12}){1,3}/g, (path) => {
    if (!/[?[]/.test(path)) return path
    const pattern = path.replace(/\[[\w-]{1,16}\]|[[\]]/g, '?')
    return KNOWN_PATHS.find((known) => isFitting(known, pattern)) ?? path
  })
}

/** Whether a question mark of the pattern, or the same character, stands in place of each one of the path. */
function isFitting(path: string, pattern: string): boolean {
  if (path.length !== pattern.length) return false
  for (let at = 0; at < path.length; at++) if (pattern[at] !== '?' && pattern[at] !== path[at]) return false
  return true
}

/** Commands that say what a machine is and who uses it. */
const SURVEYING =
  /(?<=(?:^|[;&|\n])\s{0,8})(?:\/?(?:usr\/)?s?bin\/)?(whoami|id|uname|hostname|ifconfig|ip (?:a|addr|route)|netstat|ps(?: aux)?|env|printenv|lsb_release|arp|sudo -l|cat \/(?:etc|proc)\/[\w/]{1,32})(?=\s{0,8}(?:$|[;&|\n])|\s{1,8}-)/g

/** Characters over which such commands are a burst. */
const BURST = 400

/** At least three different commands that only look around: what an attack runs first, and a person seldom in one text. */
export function surveys(text: string): Span[] {
  if (!/[;&|\n]/.test(text)) return []
  const places = new Map<string, number>()
  for (const { index: end, 0: match, 1: name = '' } of matchesOf(text, SURVEYING)) {
    for (const [other, start] of places)
      if (end - start > BURST || text.slice(start, end).includes('\0')) places.delete(other)
    places.set(name, end)
    if (places.size > 2) return [{ start: Math.min(...places.values()), end: end + match.length }]
  }
  return []
}

const DOWNLOAD = /\b(?:curl|wget|fetch)\s[^;&\n]{1,400}$/i
const PIPED = [
  /\b(?:nc|ncat|netcat)\s[^\n]{0,40}-[a-z]{0,4}[ec]\s{0,4}\/bin\//i,
  /\/dev\/(?:tcp|udp)\/[\w.$-]{1,255}\/\d/,
  /\b(?:iex|invoke-expression)\b[^\n]{0,60}\b(?:downloadstring|iwr|invoke-webrequest)/i,
]

/** A program from elsewhere that is run at once, and shells that are opened towards another host. */
export function pipedDownloads(text: string): Span[] {
  // None is shorter than `nc -e /bin/`.
  if (text.length < 11) return []
  const download = pipedToShell(text, DOWNLOAD)
  const others = firstOfEach(text, PIPED)
  return download === undefined ? others : [download, ...others]
}
