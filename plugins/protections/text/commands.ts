// Commands in arguments that are written so that a reader or a filter does not recognize them.
import type { Span } from '@svc/core/pii'

/** Programs that attacks run; what a shell would run after reading the text is compared with these. */
const PROGRAMS =
  'cat tac nl head tail less more od xxd strings curl wget nc ncat netcat socat telnet ssh scp sftp ftp rsync bash sh zsh dash ksh csh fish python python2 python3 perl ruby php node lua awk gawk sed rm dd mkfs shred chmod chown chattr kill pkill killall sudo su passwd useradd usermod whoami id uname hostname ifconfig ip netstat ps env printenv set export base64 openssl tar zip gzip find xargs eval exec source crontab at systemctl service mount docker kubectl powershell pwsh cmd certutil bitsadmin reg rundll32 mshta iex invoke-expression ls cp mv ln touch tee echo printf'.split(
    ' ',
  )
const PATHS = /\/(?:etc\/(?:passwd|shadow|sudoers|hosts)|root\/|bin\/|dev\/tcp\/|proc\/self)/
const PROGRAM = new RegExp(
  String.raw`(?<![\w./-])(?:/?(?:usr/)?(?:local/)?s?bin/)?(${PROGRAMS.join('|')})(?![\w-])`,
  'gi',
)
/** Signs that a shell reads away, or that stand for other text. Texts without one are as they look. */
const SIGNS = /[\\'"`$^{?*]|[\uff01-\uff5e]/

/**
 * Text that names a program or a file of the system only after a shell has read it: quotes or backslashes within a word,
 * `$IFS`, escapes, braces, variables, encoded commands, full-width letters, patterns in place of letters.
 */
export function obfuscatedCommands(text: string): Span[] {
  const spans: Span[] = []
  for (let start = 0; start <= text.length; ) {
    const next = text.indexOf('\n', start)
    const end = next < 0 ? text.length : next
    const span = inLine(text.slice(start, end))
    if (span !== undefined) spans.push({ start: start + span.start, end: start + span.end })
    start = end + 1
  }
  return spans
}

function inLine(line: string): Span | undefined {
  if (!SIGNS.test(line) && !/base64|xxd|-e(?:nc|c)/i.test(line)) return undefined
  for (const pattern of HANDED_TO_SHELL) {
    const match = pattern.exec(line)
    if (match !== null) return { start: match.index, end: match.index + match[0].length }
  }
  // Backslashes separate the parts of such paths.
  if (/^[a-z]:\\|^\\\\/i.test(line)) return undefined
  const plain = asShellReads(line)
  return plain !== line && reveals(line, plain) ? { start: 0, end: line.length } : undefined
}

const LIST_OF_PROGRAM = new RegExp(String.raw`(?<![\w$])\{(?:${PROGRAMS.join('|')}),[-/~.$][^{}\s]{0,200}\}`)

const HANDED_TO_SHELL = [
  /[\w/]\$\{?IFS\b/,
  LIST_OF_PROGRAM,
  /(?:base64\s{1,4}(?:-d|-D|--decode)|xxd\s{1,4}-r|openssl\s{1,4}(?:enc|base64)\s[^|\n]{0,40}-d|rev|tr\s[^|\n]{1,60})[^|\n]{0,40}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da|k)?sh\b/i,
  /[`(][^`()\n]{0,200}(?:base64\s{1,4}(?:-d|-D|--decode)|xxd\s{1,4}-r)/i,
  /(?:powershell|pwsh)(?:\.exe)?\s[^\n]{0,80}-e(?:nc(?:odedcommand)?|c)?\s{1,4}[A-Za-z0-9+/=]{12,}/i,
  /(?:python[23]?|perl|ruby|node|php)\s{1,4}-[cer]\s[^\n]{0,60}(?:base64|b64decode|fromCharCode|decode\(|chr\()/i,
  /\beval\s{1,4}["'(]?\$?\(?[^\n]{0,60}(?:base64|printf|echo|xxd|rev)/i,
]

/** Programs and files that the text as a shell reads it has, and the text as it is written has not. */
function reveals(written: string, plain: string): boolean {
  const lower = written.toLowerCase()
  for (const [, program = ''] of plain.matchAll(PROGRAM)) {
    if (!new RegExp(`(?<![a-z])${program.toLowerCase()}(?![a-z])`).test(lower)) return true
  }
  const path = PATHS.exec(plain)
  return path !== null && !lower.includes(path[0])
}

/** About what a POSIX shell makes of a line before it runs it; nothing is run. */
function asShellReads(text: string): string {
  let plain = text.normalize('NFKC')
  plain = plain.replace(/\$'((?:[^'\\]|\\.){0,400})'/g, (_quoted, inner: string) => fromEscapes(inner))
  plain = plain.replace(/\$\{?IFS\}?(?:\$\d)?/g, ' ')
  plain = plain.replace(/(?<=\w)(?:``|\$\(\))(?=\w)/g, '')
  plain = plain.replace(/\$[@*]|\$\{?\d\}?/g, '')
  plain = plain.replace(
    /(?:\$\(|`)\s{0,4}(?:echo|printf)\s{1,4}(?:-[neE]{1,3}\s{1,4})?(["']?)([^`()"'\n]{0,200})\1\s{0,4}[)`]/g,
    (_run, _quote, words: string) => fromEscapes(words),
  )
  plain = withVariables(plain)
  plain = plain.replace(/\{([^{}\s,]{1,64}(?:,[^{}\s,]{0,200}){1,16})\}/g, (_braces, inner: string) =>
    inner.replaceAll(',', ' '),
  )
  // Quotes and backslashes within or around a word are read away; a pair around several words keeps them apart.
  plain = plain.replace(
    /(?<=\w)(["'])\1|(?<=\w)(["'])(\w{1,32})\2|(["'])(\w{1,32})\4(?=\w)/g,
    (_whole, _a, _b, inner = '', _c, before = '') => `${inner}${before}`,
  )
  plain = plain
    .replace(/\\(?=[A-Za-z/])(?![nrtbfv0](?![a-z]))/g, '')
    .replace(/\w(?:\^\w){2,}/g, (word) => word.replaceAll('^', ''))
  return withoutPatterns(plain)
}

function fromEscapes(text: string): string {
  return text.replace(
    /\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|0?([0-7]{3}))/g,
    (_escape, x?: string, u?: string, octal?: string) =>
      String.fromCharCode(
        octal === undefined ? Number.parseInt(x ?? u ?? '', 16) : Number.parseInt(octal, 8),
      ),
  )
}

function withVariables(text: string): string {
  const values = new Map<string, string>()
  for (const [, name = '', value = ''] of text.matchAll(
    /(?<![\w$])([A-Za-z_]\w{0,31})=["']?([\w./-]{1,64})["']?(?=[;&\s]|$)/g,
  ))
    if (values.size < 64) values.set(name, value)
  return values.size === 0
    ? text
    : text.replace(/\$\{?([A-Za-z_]\w{0,31})\}?/g, (whole, name: string) => values.get(name) ?? whole)
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
    const fits = new RegExp(`^${path.replace(/\?|\[[\w-]{1,16}\]/g, '.').replace(/[[\]]/g, '.')}$`)
    return KNOWN_PATHS.find((known) => fits.test(known)) ?? path
  })
}

const PIPED = [
  /\b(?:curl|wget|fetch)\s[^|;&\n]{1,400}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da|k)?sh\b/i,
  /\b(?:nc|ncat|netcat)\s[^\n]{0,40}-[a-z]{0,4}[ec]\s{0,4}\/bin\//i,
  /\/dev\/(?:tcp|udp)\/[\w.$-]{1,255}\/\d/,
  /\b(?:iex|invoke-expression)\b[^\n]{0,60}\b(?:downloadstring|iwr|invoke-webrequest)/i,
]

/** A program from elsewhere that is run at once, and shells that are opened towards another host. */
export function pipedDownloads(text: string): Span[] {
  return PIPED.flatMap((pattern) => {
    const match = pattern.exec(text)
    return match === null ? [] : [{ start: match.index, end: match.index + match[0].length }]
  })
}
