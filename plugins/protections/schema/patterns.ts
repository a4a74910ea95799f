// The patterns of schemas, by RE2, whose time is linear in the text: the engine of V8 can take for ever. What RE2 has not,
// such as lookaheads, is left out before the schema is compiled, so that it is not checked.
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { RE2JS, RE2JSException } from 're2js'

const maxPattern = 2_000
/** Instructions of a compiled pattern; each may run for each character. */
const maxProgram = 5_000

/** The pattern; undefined for one that RE2 reads in another way than a schema, or that is too large. */
export function linearPattern(pattern: string): RE2JS | undefined {
  // RE2 takes the name of a group that is repeated for letters.
  if (pattern.length > maxPattern || pattern.includes('\\k<')) return undefined
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return compiled.programSize() <= maxProgram ? compiled : undefined
  } catch (error) {
    if (error instanceof RE2JSException) return undefined
    throw error
  }
}

/**
 * The schema without the patterns that are not checked, and without the identifier by which it could be taken for another.
 * Rules on the remaining members of an object go with a pattern of names, as they depend on it.
 */
export function checkable({ $id: _id, id: _former, ...schema }: JsonObject): JsonObject {
  return withoutPatterns(schema) as JsonObject
}

/** Keywords whose lists are values, not schemas. */
const values: ReadonlySet<string> = new Set(['enum', 'examples'])

function withoutPatterns(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutPatterns)
  if (!isJsonObject(value)) return value
  const kept = Object.entries(value).filter(
    ([name, member]) =>
      name !== 'pattern' || typeof member !== 'string' || linearPattern(member) !== undefined,
  )
  const named = value['patternProperties']
  const isComplete =
    !isJsonObject(named) || Object.keys(named).every((pattern) => linearPattern(pattern) !== undefined)
  const dependent = ['patternProperties', 'additionalProperties', 'unevaluatedProperties']
  return Object.fromEntries(
    kept
      .filter(([name]) => isComplete || !dependent.includes(name))
      .map(([name, member]) => [
        name,
        values.has(name) && Array.isArray(member) ? member : withoutPatterns(member),
      ]),
  )
}
