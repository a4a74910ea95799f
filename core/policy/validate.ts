// Validates a section with its schema, and writes the message of each issue: what is wrong, what is accepted.
import { z } from 'zod'
import { describeSchema } from './describe-schema.js'
import { mistakeAt } from './diagnostic.js'
import { withoutSecrets } from './environment.js'
import { type Env, type PolicyNode, pathOfMember } from './node.js'
import { type Position, type SchemaPath, SectionReader } from './read.js'
import { listedValues } from './schema-kind.js'
import { nearest } from './spelling.js'
import type { Diagnostic } from './types.js'

type Issue = z.core.$ZodIssue
type RawIssue = z.core.$ZodRawIssue

export interface Validated<T> {
  /** Undefined when there are mistakes. */
  readonly value: T | undefined
  readonly mistakes: readonly Diagnostic[]
}

/** Reads `node` along `schema`, then parses it. `position` is that of the section. */
export function validate<T>(
  node: PolicyNode,
  schema: z.ZodType<T>,
  position: Position,
  env: Env,
): Validated<T> {
  const reader = new SectionReader(env)
  const ownMessages = new Set<string>()
  const error: z.core.$ZodErrorMap = (issue) => {
    const message = messageFor(issue)
    ownMessages.add(message)
    return message
  }
  const parsed = schema.safeParse(reader.read(node, schema, position), { error, reportInput: false })
  const issues = parsed.success ? [] : parsed.error.issues
  const mistakes = [...reader.mistakes, ...mistakesOf(issues, { reader, ownMessages }, [])]
  return { value: parsed.success && mistakes.length === 0 ? parsed.data : undefined, mistakes }
}

interface IssueContext {
  readonly reader: SectionReader
  /** The messages that come from `messageFor`; all others are the schemas' own. */
  readonly ownMessages: ReadonlySet<string>
}

function mistakesOf(issues: readonly Issue[], context: IssueContext, base: SchemaPath): Diagnostic[] {
  const { reader, ownMessages } = context
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path]
    if (reader.hasErrors(path)) return []
    const position = reader.positionOf(path)
    if (issue.code === 'invalid_union' && position?.option !== undefined) {
      const chosen = issue.errors[position.option]
      if (chosen !== undefined && chosen.length > 0) return mistakesOf(chosen, context, path)
    }
    const { origin, path: written } = position ?? positionOfMissing(reader, path)
    if (ownMessages.has(issue.message))
      return [mistakeAt(origin, written, withTemplate(issue.message, position))]
    // A schema's own message may contain any value of its section.
    const message = withoutSecrets(issue.message, reader.secrets)
    const isMissing = position === undefined && issue.code !== 'custom'
    return [mistakeAt(origin, written, isMissing ? `missing; ${message}` : message)]
  })
}

/** Replaces a value from the environment by its reference. */
function withTemplate(message: string, position: Position | undefined): string {
  const { template } = position ?? {}
  if (template === undefined) return message
  return message
    .replace(/^a string is given/, () => `a string (from ${template}) is given`)
    .replace(/^("(?:[^"\\]|\\.)*"|-?\d\S*|true|false) is given/, () => `${template} is given`)
}

/** A missing value is reported at its nearest parent. */
function positionOfMissing(reader: SectionReader, path: SchemaPath): Position {
  for (let end = path.length - 1; end >= 0; end--) {
    const parent = reader.positionOf(path.slice(0, end))
    if (parent === undefined) continue
    const written = path.slice(end).reduce<string>((at, key) => {
      return typeof key === 'number' ? `${at}[${key}]` : pathOfMember(at, String(key))
    }, parent.path)
    return { origin: parent.origin, path: written }
  }
  throw new Error('the section itself has no position')
}

/** The message of an issue for which the schema has none. It names the value only if the schema lists values. */
function messageFor(issue: RawIssue): string {
  const { inst } = issue
  const accepted = inst instanceof z.core.$ZodType ? describeSchema(inst) : ''
  if (issue.input === undefined && issue.code !== 'unrecognized_keys')
    return `missing; accepted is ${accepted}`
  switch (issue.code) {
    case 'unrecognized_keys':
      return `unknown key ${issue.keys.map((key) => `"${key}"`).join(', ')}`
    case 'invalid_value':
    case 'invalid_union':
      return describeChoice(issue, accepted)
    case 'invalid_key':
      return describeName(issue)
    case 'too_small':
    case 'too_big':
      return describeSize(issue)
    case 'not_multiple_of':
      return `not accepted; accepted is a multiple of ${issue.divisor}`
    case 'invalid_format':
      return `not accepted; accepted is ${describeFormat(issue.format, accepted)}`
    case 'invalid_type':
      if (typeof issue.input === 'number') return `${String(issue.input)} is given; accepted is ${accepted}`
      return `${kindOf(issue.input)} is given; accepted is ${accepted}`
    default:
      return `not accepted; accepted is ${accepted}`
  }
}

/** The message about a name in a map. Zod has already formatted the name's own issues. */
function describeName({ inst }: RawIssue): string {
  if (!(inst instanceof z.core.$ZodRecord)) return 'this name is not accepted'
  return `this name is not accepted; accepted is ${describeSchema(inst._zod.def.keyType)}`
}

function describeChoice(issue: RawIssue, accepted: string): string {
  const { input, inst } = issue
  const values = inst instanceof z.core.$ZodType ? listedValues(inst) : []
  const words = values.filter((value) => typeof value === 'string')
  if (typeof input !== 'string' || words.length === 0)
    return `${kindOf(input)} is given; accepted is ${accepted}`
  const similar = nearest(input, words)
  const hint = similar === undefined ? '' : `; did you mean "${similar}"?`
  return `${JSON.stringify(input)} is given; accepted is ${accepted}${hint}`
}

function describeSize(issue: z.core.$ZodRawIssue<z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig>): string {
  const isSmall = issue.code === 'too_small'
  const bound = String(isSmall ? issue.minimum : issue.maximum)
  const units: Record<string, string> = { string: ' characters', array: ' entries', map: ' entries' }
  const inclusive = `${isSmall ? 'at least' : 'at most'} ${bound}`
  if (issue.origin === 'string' && isSmall && bound === '1')
    return 'empty; accepted is a string that is not empty'
  if (issue.origin === 'array' && isSmall && bound === '1')
    return 'empty; accepted is a list of at least one entry'
  const given =
    typeof issue.input === 'number' ? `${issue.input} is given` : `too ${isSmall ? 'small' : 'large'}`
  const range = issue.inclusive === false ? `${isSmall ? 'above' : 'below'} ${bound}` : inclusive
  return `${given}; accepted is ${range}${units[issue.origin] ?? ''}`
}

function describeFormat(format: string, accepted: string): string {
  return format === 'url' ? 'a URL' : accepted
}

function kindOf(value: unknown): string {
  if (value === null) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return String(value)
  return `a ${typeof value}`
}
