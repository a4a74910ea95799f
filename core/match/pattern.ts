// Compiles a pattern of a policy. A pattern that can never match a reference is refused,
// because in a denylist it would silently have no effect.

import { type Glob, globMeets, globOf, isLiteral, NAME } from './glob.js'
import { REFERENCE_PREFIX } from './reference.js'
import { readUri } from './resource-uri.js'
import { foldNames, placeholdersFor } from './subject.js'

export type PatternCode =
  | 'empty'
  | 'empty_name'
  | 'dot_name'
  | 'control_character'
  | 'malformed_encoding'
  | 'malformed_unicode'
  | 'ambiguous_at'
  | 'matches_nothing'
  | 'not_normal_uri'
  | 'too_long'

/** An invalid pattern; `reason` is for the author of the policy. */
export class PatternError extends Error {
  override readonly name = 'PatternError'

  constructor(
    readonly code: PatternCode,
    readonly pattern: string,
    readonly reason: string,
  ) {
    super(`pattern ${JSON.stringify(pattern.slice(0, 100))}: ${reason}`)
  }
}

/** In UTF-16 units; longer than two of the longest names in escapes. Limits the cost of compiling a pattern. */
const MAX_LENGTH = 25_000

/**
 * `parts` has a glob for the server and one for the rest; `whole` has one glob over `server/tool@version`, for patterns
 * with `mcp://` and a star in the server, which may also match beyond it.
 */
export type Pattern = {
  readonly source: string
  /** The number of literal characters without `mcp://`: the specificity of the pattern. */
  readonly literals: number
} & (
  | { readonly kind: 'parts'; readonly server: Glob; readonly path: Glob }
  | { readonly kind: 'whole'; readonly text: Glob }
)

/**
 * The pattern that matches this tool, in any version, and no other; in lists that restrict also those whose names have the
 * same fold. The names are those of a reference (`formatReference`).
 */
export function exactPattern({ server, tool }: { readonly server: string; readonly tool: string }): string {
  return `${literally(server)}/${literally(tool)}`
}

function literally(name: string): string {
  return name.replace(/[/@%*]/g, (sign) => (sign === '*' ? '%2A' : encodeURIComponent(sign)))
}

/** @throws {PatternError} */
export function compilePattern(source: string): Pattern {
  const refuse = (code: PatternCode, reason: string) => new PatternError(code, source, reason)
  if (source === '') throw refuse('empty', 'a pattern is not empty; "*" matches everything')
  if (source.length > MAX_LENGTH) throw refuse('too_long', `a pattern has at most ${MAX_LENGTH} characters`)
  if (!source.isWellFormed()) throw refuse('malformed_unicode', 'half of a surrogate pair')
  const full = source.startsWith(REFERENCE_PREFIX)
  const segments = (full ? source.slice(REFERENCE_PREFIX.length) : source).split('/')
  const bare = !full && segments.length === 1
  const server = bare ? '*' : (segments.shift() ?? '')
  const path = joinName(segments)
  if (segments[0] === 'resources') checkUri(segments.slice(1).join('/'), refuse)

  if (full && (path === '' || server.includes('*'))) return wholePattern(source, server, segments, refuse)

  if (server.includes('@'))
    throw refuse('ambiguous_at', 'the part before "/" is the server; "@" within its name is written %40')
  const tool = withVersion(path, full, refuse)
  checkNames([server, ...path.split(/[/@]/)], refuse)
  const globs = { server: literalGlob(server, refuse), path: literalGlob(tool, refuse) }
  if (path.includes('/') || full) checkMeets(globs.path, PATHS, refuse)
  return { source, kind: 'parts', ...globs, literals: count(globs.server) + 1 + count(globs.path) }
}

type Refuse = (code: PatternCode, reason: string) => PatternError

const PATHS = [`${NAME}@${NAME}`, `prompts/${NAME}@${NAME}`, `resources/${NAME}@${NAME}`]

/** A prompt's name or a resource's URI may contain unencoded slashes, as nothing follows it in the path. */
function joinName(segments: readonly string[]): string {
  const [first, ...name] = segments
  return first === 'prompts' || first === 'resources'
    ? name.length === 0
      ? first
      : `${first}/${name.join('%2F')}`
    : segments.join('/')
}

function wholePattern(source: string, server: string, segments: readonly string[], refuse: Refuse): Pattern {
  const path = joinName(segments)
  const written = segments.length === 0 ? server : `${server}/${path}`
  checkAt(written, refuse)
  checkNames(written.split(/[/@]/), refuse)
  const text = literalGlob(written, refuse)
  checkMeets(
    text,
    PATHS.map((shape) => `${NAME}/${shape}`),
    refuse,
  )
  return { source, kind: 'whole', text, literals: count(text) }
}

function withVersion(path: string, full: boolean, refuse: Refuse): string {
  checkAt(path, refuse)
  return full || path.includes('@') ? path : `${path}@*`
}

function checkAt(path: string, refuse: Refuse): void {
  if (path.split('@').length > 2)
    throw refuse('ambiguous_at', 'one "@" separates the version; "@" within a name is written %40')
}

function checkNames(names: readonly string[], refuse: Refuse): void {
  for (const name of names) {
    if (name === '') throw refuse('empty_name', 'a name is missing; "*" matches any')
    if (/^(?:\.|%2e){1,2}$/i.test(name)) throw refuse('dot_name', 'no name is "." or ".."')
  }
}

function checkMeets(glob: Glob, shapes: readonly string[], refuse: Refuse): void {
  if (!shapes.some((shape) => globMeets(glob, shape)))
    throw refuse(
      'matches_nothing',
      'no reference can match; with mcp:// a pattern is a whole reference, mcp://server/tool@version, and "/" within a name is written %2F',
    )
}

/** Possible ends of a URI that begins with the text before a pattern's first star. */
const CONTINUATIONS = ['', 'x', 'x/x', '1/x', '/x', '/x/x', '//x/x', '://x/x', '5', '25']

/** `text` is the URI of a resource pattern, perhaps with its version. */
function checkUri(text: string, refuse: Refuse): void {
  const [uri = ''] = text.split('@')
  const [start, ...stars] = globOf(uri)
  const read = decode(start, refuse).normalize('NFC')
  const endings = stars.length === 0 ? [''] : CONTINUATIONS
  if (read !== '' && endings.every((ending) => readUri(read + ending) !== read + ending))
    throw refuse(
      'not_normal_uri',
      'no URI can match: URIs are matched in normal form (RFC 3986 §6.2), decoded: scheme and host in lower case, without user, default port and dot segments',
    )
}

/** Splits at the stars before decoding, so that %2A is a literal star. */
function literalGlob(text: string, refuse: Refuse): Glob {
  const [first, ...rest] = globOf(text)
  return [literal(first, refuse), ...rest.map((chunk) => literal(chunk, refuse))]
}

function literal(chunk: string, refuse: Refuse): string {
  if (/\p{Cc}/u.test(chunk)) throw refuse('control_character', 'a control character')
  const [plain = '', ...tails] = chunk.split(/((?:%[0-9A-Fa-f]{2})+)/)
  let text = plain
  for (const [i, part] of tails.entries()) text += i % 2 === 0 ? placeholdersFor(decode(part, refuse)) : part
  // Every valid escape is replaced, so a remaining "%" is malformed.
  if (plain.includes('%') || tails.some((part, i) => i % 2 === 1 && part.includes('%')))
    throw refuse('malformed_encoding', '"%" starts an escape of two hexadecimal digits; "%" itself is %25')
  return text.normalize('NFC')
}

function decode(escapes: string, refuse: Refuse): string {
  let text: string
  try {
    text = decodeURIComponent(escapes)
  } catch {
    throw refuse('malformed_encoding', 'percent-encoded bytes that are not UTF-8')
  }
  if (/\p{Cc}/u.test(text)) throw refuse('control_character', 'a control character')
  return text
}

function count(glob: Glob): number {
  let characters = 0
  for (const chunk of glob) characters += [...chunk].length
  return characters
}

/** Stands for a star while a glob is folded as one text. */
const STAR = '\u0008'

/** The pattern for folded references; the same object if that changes nothing. */
export function foldPattern(pattern: Pattern): Pattern {
  if (pattern.kind === 'whole') {
    const text = foldGlob(pattern.text)
    return text === pattern.text ? pattern : { ...pattern, text }
  }
  const server = foldGlob(pattern.server)
  const path = foldGlob(pattern.path)
  return server === pattern.server && path === pattern.path ? pattern : { ...pattern, server, path }
}

function foldGlob(glob: Glob): Glob {
  const text = glob.join(STAR)
  const folded = foldNames(text)
  if (folded === text) return glob
  const [first = '', ...rest] = folded.split(STAR)
  return [first, ...rest]
}

/** Whether the pattern names a single server. */
export function hasLiteralServer(pattern: Pattern): pattern is Extract<Pattern, { kind: 'parts' }> {
  return pattern.kind === 'parts' && isLiteral(pattern.server)
}
