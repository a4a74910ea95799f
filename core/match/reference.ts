// References name what a policy speaks of: a tool, prompt or resource of a server, in one version. Each has exactly
// one canonical text, so that patterns, quota keys and audit records can compare text (decisions.md, head and §2).

import { hasPiledUpMarks } from './normalize.js'

export interface ToolParts {
  readonly server: string
  readonly tool: string
  readonly version: string
}
export interface PromptParts {
  readonly server: string
  readonly prompt: string
  readonly version: string
}
export interface ResourceParts {
  readonly server: string
  /** The resource's URI, as one name. */
  readonly resource: string
  readonly version: string
}
export type ReferenceParts = ToolParts | PromptParts | ResourceParts

export type ReferenceCode =
  | 'not_a_reference'
  | 'empty_name'
  | 'dot_name'
  | 'name_too_long'
  | 'control_character'
  | 'malformed_encoding'
  | 'malformed_unicode'
  | 'piled_up_marks'

/** The message may be shown to the caller: it does not repeat what was given. */
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

/** In UTF-16 units of the decoded name. Names arrive in bodies too, where no header limit bounds what patterns search. */
const MAX_NAME = 4096

/**
 * The canonical reference of already decoded names: each in Unicode NFC, with `/`, `@` and `%` percent-encoded.
 *
 * @throws {ReferenceInputError} for a name that is empty, `.`, `..`, longer than 4096 UTF-16 units, not
 *   well-formed Unicode, or that holds a control character or more than 30 combining marks in a row.
 */
export function formatReference(parts: ReferenceParts): string {
  const server = encode(checked('server name', parts.server))
  const version = encode(checked('version', parts.version))
  if ('tool' in parts) return canonicalText(server, encode(checked('tool name', parts.tool)), version)
  const path =
    'prompt' in parts
      ? `prompts/${encode(checked('prompt name', parts.prompt))}`
      : `resources/${encode(checked('resource URI', parts.resource))}`
  return canonicalText(server, path, version)
}

function canonicalText(server: string, path: string, version: string): string {
  return `${REFERENCE_PREFIX}${server}/${path}@${version}`
}

/**
 * Reads a reference; any valid percent-encoding is accepted, so the text need not be canonical.
 *
 * @returns the decoded names, in NFC
 * @throws {ReferenceInputError}
 */
export function parseReference(text: string): ReferenceParts {
  if (!text.startsWith(REFERENCE_PREFIX))
    throw new ReferenceInputError('not_a_reference', 'a reference begins with mcp://')
  const [serverText = '', ...path] = text.slice(REFERENCE_PREFIX.length).split('/')
  const server = parseNameSegment(serverText, 'server name')
  const [first = '', second] = path
  if (path.length === 1) return { server, ...parseToolSegment(first) }
  if (path.length === 2 && second !== undefined) {
    if (first === 'prompts') {
      const { name, version } = splitVersion(second, 'prompt name')
      return { server, prompt: name, version }
    }
    if (first === 'resources') {
      const { name, version } = splitVersion(second, 'resource URI')
      return { server, resource: name, version }
    }
  }
  throw new ReferenceInputError(
    'not_a_reference',
    'a reference is mcp://<server>/<tool>@<version>, or has prompts/ or resources/ before its name; "/" within a name is written %2F',
  )
}

/**
 * Reads a `<tool>@<version>` path segment, as it stands in a URL or in an A2A call.
 *
 * @throws {ReferenceInputError}
 */
export function parseToolSegment(segment: string): { tool: string; version: string } {
  const { name, version } = splitVersion(segment, 'tool name')
  return { tool: name, version }
}

/** A `<tool>@<version>` segment that is safe in a URL path: all but unreserved characters are encoded. */
export function formatToolSegment(parts: { readonly tool: string; readonly version: string }): string {
  return `${formatNameSegment(parts.tool, 'tool name')}@${formatNameSegment(parts.version, 'version')}`
}

/**
 * Reads one name from a URL path segment, such as the server's.
 *
 * @throws {ReferenceInputError}
 */
export function parseNameSegment(segment: string, what = 'name'): string {
  if (segment.includes('/') || segment.includes('@'))
    throw new ReferenceInputError(
      'not_a_reference',
      `a ${what} that holds "/" or "@" is written with %2F or %40`,
    )
  return checked(what, decode(segment, what))
}

/** A name as one URL path segment. */
export function formatNameSegment(name: string, what = 'name'): string {
  return encodeURIComponent(checked(what, name))
}

function splitVersion(segment: string, what: string): { name: string; version: string } {
  const at = segment.indexOf('@')
  if (at < 0 || segment.indexOf('@', at + 1) >= 0)
    throw new ReferenceInputError(
      'not_a_reference',
      `a ${what} is followed by one "@" and a version; "@" within a name is written %40`,
    )
  return {
    name: parseNameSegment(segment.slice(0, at), what),
    version: parseNameSegment(segment.slice(at + 1), 'version'),
  }
}

function decode(text: string, what: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new ReferenceInputError('malformed_encoding', `malformed percent-encoding in the ${what}`, {
      cause,
    })
  }
}

/** Encodes just what would otherwise be read as structure. */
function encode(name: string): string {
  return RESERVED.test(name) ? name.replace(/[/@%]/g, (sign) => encodeURIComponent(sign)) : name
}

const RESERVED = /[/@%]/
const PLAIN = /^[\x20-\x7e]+$/
const CONTROL = /\p{Cc}/u

function checked(what: string, given: string): string {
  if (given === '') throw new ReferenceInputError('empty_name', `the ${what} is empty`)
  if (given === '.' || given === '..')
    throw new ReferenceInputError('dot_name', `the ${what} is a relative path`)
  checkLength(what, given)
  const name = PLAIN.test(given) ? given : composed(what, given)
  checkLength(what, name)
  return name
}

function checkLength(what: string, name: string): void {
  if (name.length > MAX_NAME)
    throw new ReferenceInputError('name_too_long', `the ${what} is longer than ${MAX_NAME} characters`)
}

function composed(what: string, name: string): string {
  if (!name.isWellFormed())
    throw new ReferenceInputError('malformed_unicode', `the ${what} holds half of a surrogate pair`)
  if (CONTROL.test(name))
    throw new ReferenceInputError('control_character', `the ${what} holds a control character`)
  // Before, for the cost; and after, as one mark can be written as two in NFC.
  checkMarks(what, name)
  const normal = name.normalize('NFC')
  checkMarks(what, normal)
  return normal
}

function checkMarks(what: string, name: string): void {
  if (hasPiledUpMarks(name))
    throw new ReferenceInputError('piled_up_marks', `the ${what} has too many combining marks in a row`)
}
