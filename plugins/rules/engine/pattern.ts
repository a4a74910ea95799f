// `matches` by RE2, whose time is linear in the text. The library would use the engine of V8, which is not.
import { RE2JS, RE2JSException } from 're2js'
import type { CostBudget } from './call-scope.js'
import { ExpressionError } from './mistake.js'

const MAX_PATTERN = 500
/** Instructions of a compiled pattern; each may run for each character. */
const MAX_PROGRAM = 200
/** Nanoseconds per character and instruction, by the slowest of the patterns that were measured. */
const STEP_NS = 25

/** @throws {ExpressionError} for a pattern that RE2 does not accept, or that is too large */
export function compileMatches(
  pattern: string,
  range: { readonly start: number },
): (text: string, budget: CostBudget) => boolean {
  const tooLarge = 'the pattern is too large; accepted are shorter patterns and smaller repetitions'
  if (pattern.length > MAX_PATTERN) throw new ExpressionError(tooLarge, range)
  let compiled: RE2JS
  try {
    compiled = RE2JS.compile(pattern)
  } catch (cause) {
    if (!(cause instanceof RE2JSException)) throw cause
    throw new ExpressionError(`not a pattern of RE2: ${cause.message}`, range, { cause })
  }
  const size = compiled.programSize()
  if (size > MAX_PROGRAM) throw new ExpressionError(tooLarge, range)
  // The first search builds tables, which is part of the load and not of a call.
  compiled.test('a')
  return (text, budget) => {
    budget.charge(text.length * size * STEP_NS)
    return compiled.test(text)
  }
}
