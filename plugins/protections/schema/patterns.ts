// The patterns of schemas, by RE2, whose time is linear in the text: the engine of V8 can take for ever. What RE2 has not,
// such as lookaheads, is left out before the schema is compiled, so that it is not checked.
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { RE2JS, RE2JSException } from 're2js'
import { withSchemas } from './bounds.js'
import { withNumericType } from './exact-numbers.js'

const maxPattern = 2_000
/** Instructions of a compiled pattern; each may run for each character. */
const maxProgram = 5_000

/** The characters that ECMAScript takes for white space; RE2 knows only those of ASCII. */
const spaces =
  '\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}'
const otherThanSpaces =
  '\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}'
/** An escape, the ends of a class, and a dot. */
const tokens = /\\[pP]\{|\\[\s\S]|[[\].]/g
/** Escapes of letters that ECMAScript has; RE2 reads others in its own way. */
const known = /^\\(?:[^a-zA-Z]|[bBcdDfnrsStuvwWx]|[pP]\{)$/

/** The pattern; undefined for one that RE2 reads in another way than a schema, or that is too large. */
export function linearPattern(pattern: string): RE2JS | undefined {
  const text = pattern.length > maxPattern ? undefined : asRead(pattern)
  if (text === undefined) return undefined
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(text))
    return compiled.programSize() <= maxProgram ? compiled : undefined
  } catch (error) {
    if (error instanceof RE2JSException) return undefined
    throw error
  }
}

/** With the classes of characters that ECMAScript means; undefined for what RE2 alone has, such as `\A` and `[[:alpha:]]`. */
function asRead(pattern: string): string | undefined {
  let isInClass = false
  let isKnown = !pattern.includes('[:')
  const text = pattern.replaceAll(tokens, (token) => {
    const wasInClass = isInClass
    if (token === '[') isInClass = true
    else if (token === ']') isInClass = false
    else if (token === '.') return isInClass ? token : '[^\\n\\r\\x{2028}\\x{2029}]'
    else if (token === '\\s') return wasInClass ? spaces : `[${spaces}]`
    else if (token === '\\S') return wasInClass ? otherThanSpaces : `[${otherThanSpaces}]`
    else if (!known.test(token)) isKnown = false
    return token
  })
  return isKnown ? text : undefined
}

/**
 * The schema as it is compiled: with keywords for exact numbers, without the patterns that are not checked, and without the identifier by which it could be taken for another.
 * Rules on the remaining members of an object go with a pattern of names, as they depend on it.
 */
export function checkable({ $id: _id, id: _former, ...schema }: JsonObject): JsonObject {
  return withoutPatterns(schema)
}

function withoutPatterns(schema: JsonObject): JsonObject {
  const { pattern, patternProperties: named } = schema
  const left: string[] = []
  if (typeof pattern === 'string' && linearPattern(pattern) === undefined) left.push('pattern')
  if (isJsonObject(named) && Object.keys(named).some((one) => linearPattern(one) === undefined))
    left.push('patternProperties', 'additionalProperties', 'unevaluatedProperties')
  const kept = Object.fromEntries(Object.entries(schema).filter(([name]) => !left.includes(name)))
  return withSchemas(withNumericType(kept), withoutPatterns)
}
