// Parses a section with its schema and words what the schema has to say: what is wrong, what is accepted.
import { z } from 'zod'
import { acceptedBy } from './accepted.js'
import { mistakeAt } from './diagnostic.js'
import { withoutSecrets } from './environment.js'
import { type PolicyNode, pathOfMember } from './node.js'
import { type Place, type SchemaPath, SectionReader } from './read.js'
import { listedValues } from './schema-kind.js'
import { nearest } from './spelling.js'
import type { Diagnostic } from './types.js'

type Issue = z.core.$ZodIssue
type RawIssue = z.core.$ZodRawIssue

export interface Judged<T> {
  /** Undefined when there are mistakes. */
  readonly value: T | undefined
  readonly mistakes: readonly Diagnostic[]
}

/** Reads `node` along `schema`, then parses it. `place` is where the section itself stands. */
export function judge<T>(
  node: PolicyNode,
  schema: z.ZodType<T>,
  place: Place,
  env: Readonly<Record<string, string | undefined>>,
): Judged<T> {
  const reader = new SectionReader(env)
  const worded = new Set<string>()
  const error: z.core.$ZodErrorMap = (issue) => {
    const message = wording(issue)
    worded.add(message)
    return message
  }
  const parsed = schema.safeParse(reader.read(node, schema, place), { error, reportInput: false })
  const said = parsed.success ? [] : told(parsed.error.issues, { reader, worded }, [])
  const mistakes = [...reader.mistakes, ...said]
  return { value: parsed.success && mistakes.length === 0 ? parsed.data : undefined, mistakes }
}

interface Judgement {
  readonly reader: SectionReader
  /** The messages that are ours; the others a schema brought along. */
  readonly worded: ReadonlySet<string>
}

function told(issues: readonly Issue[], judgement: Judgement, base: SchemaPath): Diagnostic[] {
  const { reader, worded } = judgement
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path]
    if (reader.isFaulty(path)) return []
    const place = reader.placeOf(path)
    if (issue.code === 'invalid_union' && place?.option !== undefined) {
      const chosen = issue.errors[place.option]
      if (chosen !== undefined && chosen.length > 0) return told(chosen, judgement, path)
    }
    const { origin, path: written } = place ?? placeOfMissing(reader, path)
    if (worded.has(issue.message)) return [mistakeAt(origin, written, withTemplate(issue.message, place))]
    // What a schema says may hold any value of its section.
    const message = withoutSecrets(issue.message, reader.secrets)
    const isMissing = place === undefined && issue.code !== 'custom'
    return [mistakeAt(origin, written, isMissing ? `missing; ${message}` : message)]
  })
}

/** What was given, named by its reference where it came from the environment. */
function withTemplate(message: string, place: Place | undefined): string {
  const { template } = place ?? {}
  if (template === undefined) return message
  return message
    .replace(/^a string is given/, () => `a string (from ${template}) is given`)
    .replace(/^("(?:[^"\\]|\\.)*"|-?\d\S*|true|false) is given/, () => `${template} is given`)
}

/** What is missing is told where its nearest parent stands. */
function placeOfMissing(reader: SectionReader, path: SchemaPath): Place {
  for (let end = path.length - 1; end >= 0; end--) {
    const parent = reader.placeOf(path.slice(0, end))
    if (parent === undefined) continue
    const written = path.slice(end).reduce<string>((at, key) => {
      return typeof key === 'number' ? `${at}[${key}]` : pathOfMember(at, String(key))
    }, parent.path)
    return { origin: parent.origin, path: written }
  }
  throw new Error('the section itself has no place')
}

/** The message of an issue for which the schema itself has none. A value is named only where it is a choice. */
function wording(issue: RawIssue): string {
  const { inst } = issue
  const accepted = inst instanceof z.core.$ZodType ? acceptedBy(inst) : ''
  if (issue.input === undefined && issue.code !== 'unrecognized_keys')
    return `missing; accepted is ${accepted}`
  switch (issue.code) {
    case 'unrecognized_keys':
      return `unknown key ${issue.keys.map((key) => `"${key}"`).join(', ')}`
    case 'invalid_value':
    case 'invalid_union':
      return choiceWording(issue, accepted)
    case 'invalid_key':
      return nameWording(issue)
    case 'too_small':
    case 'too_big':
      return sizeWording(issue)
    case 'not_multiple_of':
      return `not accepted; accepted is a multiple of ${issue.divisor}`
    case 'invalid_format':
      return `not accepted; accepted is ${formatInWords(issue.format, accepted)}`
    case 'invalid_type':
      if (typeof issue.input === 'number') return `${String(issue.input)} is given; accepted is ${accepted}`
      return `${kindOf(issue.input)} is given; accepted is ${accepted}`
    default:
      return `not accepted; accepted is ${accepted}`
  }
}

/** For a name in a map; zod has worded what is wrong with it before the schema that minds is known to us. */
function nameWording({ inst }: RawIssue): string {
  if (!(inst instanceof z.core.$ZodRecord)) return 'this name is not accepted'
  return `this name is not accepted; accepted is ${acceptedBy(inst._zod.def.keyType)}`
}

function choiceWording(issue: RawIssue, accepted: string): string {
  const { input, inst } = issue
  const values = inst instanceof z.core.$ZodType ? listedValues(inst) : []
  const words = values.filter((value) => typeof value === 'string')
  if (typeof input !== 'string' || words.length === 0)
    return `${kindOf(input)} is given; accepted is ${accepted}`
  const meant = nearest(input, words)
  const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
  return `${JSON.stringify(input)} is given; accepted is ${accepted}${hint}`
}

function sizeWording(issue: z.core.$ZodRawIssue<z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig>): string {
  const isSmall = issue.code === 'too_small'
  const bound = String(isSmall ? issue.minimum : issue.maximum)
  const units: Record<string, string> = { string: ' characters', array: ' entries', map: ' entries' }
  const wanted = `${isSmall ? 'at least' : 'at most'} ${bound}`
  if (issue.origin === 'string' && isSmall && bound === '1')
    return 'empty; accepted is a string that is not empty'
  if (issue.origin === 'array' && isSmall && bound === '1')
    return 'empty; accepted is a list of at least one entry'
  const given =
    typeof issue.input === 'number' ? `${issue.input} is given` : `too ${isSmall ? 'small' : 'large'}`
  const exclusive = issue.inclusive === false ? `${isSmall ? 'above' : 'below'} ${bound}` : wanted
  return `${given}; accepted is ${exclusive}${units[issue.origin] ?? ''}`
}

function formatInWords(format: string, accepted: string): string {
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
