// References identify a tool, prompt or resource of a server in one version. Each has exactly one canonical text, so
// that patterns, quota keys and audit records can compare texts.
import { hasEscape, hasPathSegment } from './escapes.js'
import { hasPiledUpMarks } from './normalize.js'
import { readUri } from './resource-uri.js'

export interface ToolReference {
  readonly server: string
  readonly tool: string
  readonly version: string
}
interface PromptReference {
  readonly server: string
  readonly prompt: string
  readonly version: string
}
interface ResourceReference {
  readonly server: string
  /** The resource's URI, as one name; its escapes may be decoded as `readUri` does. */
  readonly resource: string
  readonly version: string
}
export type Reference = ToolReference | PromptReference | ResourceReference

export type ReferenceCode =
  | 'not_a_reference'
  | 'empty_name'
  | 'dot_name'
  | 'name_too_long'
  | 'control_character'
  | 'malformed_encoding'
  | 'malformed_unicode'
  | 'not_composed'
  | 'encoded_twice'
  | 'ambiguous_uri'
  | 'bad_version'
  | 'piled_up_marks'
  | 'ambiguous_at'

/** The message may be shown to the caller: it does not contain the input. */
export class ReferenceInputError extends Error {
  override readonly name = 'ReferenceInputError'

  constructor(
    readonly code: ReferenceCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

export const REFERENCE_PREFIX = 'mcp://'

/** In UTF-16 units of the decoded name. Names also come from bodies, which no header limit restricts. */
const MAX_NAME = 4096

/**
 * The canonical reference of already decoded names, with `/`, `@` and `%` percent-encoded. Programs behind the gateway
 * could read any other name as a different one: a name is in Unicode NFC, holds no control character and no
 * percent-escape, and with `/` and `\\` as separators no empty segment, `.` or `..`. A resource is named by its URI as
 * `readUri` reads it.
 *
 * @throws {ReferenceInputError} also for a name longer than 4096 UTF-16 units
 */
export function formatReference(reference: Reference): string {
  if ('tool' in reference) return toolReference(reference)
  const server = encode(checkedName('server name', reference.server))
  const version = checkedVersion(reference.version)
  const path =
    'prompt' in reference
      ? `prompts/${encode(checkedName('prompt name', reference.prompt))}`
      : `resources/${encode(checkedUri(reference.resource))}`
  return canonicalText(server, path, version)
}

/** The references of recent calls, by the names: most calls are of few tools. */
const toolReferences = new Map<string, string>()
const MAX_REFERENCES = 1000
const MAX_REFERENCE_KEY = 256

/** The canonical reference of a tool; throws as `formatReference`. */
export function toolReference({ server, tool, version }: ToolReference): string {
  // No valid name holds the separator.
  const key = `${server}\0${tool}\0${version}`
  const known = toolReferences.get(key)
  if (known !== undefined) return known
  const reference = canonicalText(
    encode(checkedName('server name', server)),
    encode(checkedName('tool name', tool)),
    checkedVersion(version),
  )
  if (key.length <= MAX_REFERENCE_KEY) {
    if (toolReferences.size >= MAX_REFERENCES) toolReferences.clear()
    toolReferences.set(key, reference)
  }
  return reference
}

/**
 * The reference of a tool whose version may be any text.
 *
 * @throws {ReferenceInputError} for the names
 */
function referenceOfText({ server, tool, version }: ToolReference): string {
  return canonicalText(
    encode(checkedName('server name', server)),
    encode(checkedName('tool name', tool)),
    encode(version),
  )
}

function canonicalText(server: string, path: string, version: string): string {
  return `${REFERENCE_PREFIX}${server}/${path}@${version}`
}

/**
 * Reads a reference; any valid percent-encoding is accepted, so the text need not be canonical.
 *
 * @returns the decoded names
 * @throws {ReferenceInputError}
 */
export function parseReference(text: string): Reference {
  if (!text.startsWith(REFERENCE_PREFIX))
    throw new ReferenceInputError('not_a_reference', 'a reference starts with mcp://')
  const [serverText = '', ...path] = text.slice(REFERENCE_PREFIX.length).split('/')
  const server = parseNameSegment(serverText, 'server name')
  const [first = '', second] = path
  if (path.length === 1) return { server, ...parseToolSegment(first) }
  if (path.length === 2 && second !== undefined) {
    if (first === 'prompts') {
      const { name, version } = splitVersion(second, 'prompt name', checkedName)
      return { server, prompt: name, version }
    }
    if (first === 'resources') {
      const { name, version } = splitVersion(second, 'resource URI', (_what, uri) => checkedUri(uri))
      return { server, resource: name, version }
    }
  }
  throw new ReferenceInputError(
    'not_a_reference',
    'a reference is mcp://<server>/<tool>@<version>, or has prompts/ or resources/ before its name; "/" within a name is written %2F',
  )
}

/**
 * Reads a `<tool>@<version>` path segment of a URL or of an A2A call.
 *
 * @throws {ReferenceInputError}
 */
export function parseToolSegment(segment: string): { tool: string; version: string } {
  const { name, version } = splitVersion(segment, 'tool name', checkedName)
  return { tool: name, version }
}

/** A `<tool>@<version>` segment of a URL path: all characters except unreserved ones are encoded. */
export function formatToolSegment(parts: { readonly tool: string; readonly version: string }): string {
  return `${formatNameSegment(parts.tool, 'tool name')}@${encodeURIComponent(checkedVersion(parts.version))}`
}

/**
 * Reads one name from a URL path segment, such as the server's.
 *
 * @throws {ReferenceInputError}
 */
export function parseNameSegment(segment: string, what = 'name'): string {
  return checkedName(what, decodeSegment(segment, what))
}

/** A name as one URL path segment. */
export function formatNameSegment(name: string, what = 'name'): string {
  return encodeURIComponent(checkedName(what, name))
}

type Check = (what: string, name: string) => string

function splitVersion(segment: string, what: string, check: Check): { name: string; version: string } {
  const at = segment.indexOf('@')
  if (at < 0 || segment.indexOf('@', at + 1) >= 0)
    throw new ReferenceInputError(
      'not_a_reference',
      `a ${what} is followed by one "@" and a version; "@" within a name is written %40`,
    )
  return {
    name: check(what, decodeSegment(segment.slice(0, at), what)),
    version: checkedVersion(decodeSegment(segment.slice(at + 1), 'version')),
  }
}

function decodeSegment(segment: string, what: string): string {
  if (segment.includes('/') || segment.includes('@'))
    throw new ReferenceInputError(
      'not_a_reference',
      `a ${what} that holds "/" or "@" is written with %2F or %40`,
    )
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch (cause) {
    throw new ReferenceInputError('malformed_encoding', `malformed percent-encoding in the ${what}`, {
      cause,
    })
  }
}

/** Encodes only the characters that are separators in a reference. */
function encode(name: string): string {
  return RESERVED.test(name) ? name.replace(/[/@%]/g, (sign) => encodeURIComponent(sign)) : name
}

const RESERVED = /[/@%]/
const SIMPLE = /^[A-Za-z0-9_-]{1,256}$/
const VERSION = /^[A-Za-z0-9._+-]+$/
const CONTROL = /\p{Cc}/u

/** Whether a reference can hold the text as a version. */
export function isVersion(text: string): boolean {
  return text.length <= MAX_NAME && VERSION.test(text) && text !== '.' && text !== '..'
}

function checkedVersion(version: string): string {
  if (!isVersion(version))
    throw new ReferenceInputError('bad_version', 'a version has letters, digits, ".", "_", "+" and "-"')
  return version
}

function checkedName(what: string, name: string): string {
  if (SIMPLE.test(name)) return name
  checkText(what, name)
  if (hasEscape(name))
    throw new ReferenceInputError('encoded_twice', `the ${what} holds a percent-escape once it is decoded`)
  if (hasPathSegment(name))
    throw new ReferenceInputError('dot_name', `the ${what} has an empty segment, "." or ".."`)
  return name
}

function checkedUri(uri: string): string {
  checkText('resource URI', uri)
  const read = readUri(uri)
  if (read === undefined)
    throw new ReferenceInputError(
      'ambiguous_uri',
      'the resource URI is not in normal form (RFC 3986 §6.2), or programs could read it in two ways',
    )
  checkText('resource URI', read)
  return read
}

function checkText(what: string, text: string): void {
  if (text === '') throw new ReferenceInputError('empty_name', `the ${what} is empty`)
  // Checked before the name is normalized, which takes quadratic time for a run of combining marks.
  if (text.length > MAX_NAME)
    throw new ReferenceInputError('name_too_long', `the ${what} is longer than ${MAX_NAME} characters`)
  if (!text.isWellFormed())
    throw new ReferenceInputError('malformed_unicode', `the ${what} holds half of a surrogate pair`)
  if (CONTROL.test(text))
    throw new ReferenceInputError('control_character', `the ${what} holds a control character`)
  if (hasPiledUpMarks(text))
    throw new ReferenceInputError('piled_up_marks', `the ${what} has too many combining marks in a row`)
  // A composed name would not be the name that the server lists.
  if (text.normalize('NFC') !== text)
    throw new ReferenceInputError('not_composed', `the ${what} is not in Unicode NFC`)
}

// How programs may read a name that a URL path carries: they decode the segment `<tool>@<version>`, and split it where
// they find an "@".

/** All forms of "@" for a program that folds full-width forms. */
const AT = /[@\uff20\ufe6b]/g
const HAS_AT = /[@\uff20\ufe6b]/

/** The number of readings grows with the square of it. */
const MAX_AT = 4

const NONE: readonly string[] = []

/**
 * The references that a program may read in the path segment of a tool beside the intended one: the name ends at any
 * "@" after its first character, and the version is the rest or any of its parts.
 *
 * @throws {ReferenceInputError} for more than four "@" in the name, and if a part before one is not a name
 */
export function pathReadings({ server, tool, version }: ToolReference): readonly string[] {
  if (!HAS_AT.test(tool)) return NONE
  const ends = [...tool.matchAll(AT)].map(({ index }) => index)
  if (ends.length > MAX_AT)
    throw new ReferenceInputError('ambiguous_at', `the tool name holds "@" more than ${MAX_AT} times`)
  const readings = new Set<string>()
  for (const end of ends) {
    if (end === 0) continue
    const rest = `${tool.slice(end + 1)}@${version}`
    for (const part of [rest, ...rest.split(AT)])
      readings.add(referenceOfText({ server, tool: tool.slice(0, end), version: part }))
  }
  return [...readings]
}
