// The functions of conditions. Each charges what it costs before it runs.

import { isExactNumber, JsonNumber } from '@svc/core/json'
import { RE2JS, RE2JSException } from 're2js'
import { doubleOf, intIn, operand } from './arithmetic.js'
import { type CostBudget, fail } from './call-scope.js'
import { type EvaluationState, isList, isMap, TypeName, typeOf, type Value } from './evaluation.js'
import { ExpressionError } from './mistake.js'
import { timestampOf } from './time.js'

type Run = (args: readonly Value[], evaluation: EvaluationState) => Value

/** Nanoseconds per character that a search costs, by the slowest search that was found. */
const SEARCH_NS = 6
const COPY_NS = 4
const ASCII_UPPER = /[A-Z]/g
const ASCII_LOWER = /[a-z]/g
/** RFC 8259 §6. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

export const typeNames: ReadonlyMap<string, TypeName> = new Map(
  ['bool', 'double', 'int', 'list', 'map', 'null_type', 'string'].map((name) => [name, new TypeName(name)]),
)

/** Functions that are called by name: `size(args.list)`. */
export const functions: ReadonlyMap<string, Run> = new Map<string, Run>([
  ['size', ([value = null], evaluation) => BigInt(sizeOf(value, evaluation))],
  ['type', ([value = null]) => typeNames.get(typeOf(value)) ?? new TypeName(typeOf(value))],
  ['int', ([value = null]) => intOf(value)],
  ['double', ([value = null]) => doubleFrom(value)],
  ['string', ([value = null], { budget }) => textFrom(value, budget)],
  ['dyn', ([value = null]) => value],
  ['timestamp', ([value = null]) => timestampOf(stringOf(value))],
])

/** Functions that are called on a value: `args.name.startsWith('a')`. */
export const methods: ReadonlyMap<string, Run> = new Map<string, Run>([
  ['size', ([value = null], evaluation) => BigInt(sizeOf(value, evaluation))],
  ['startsWith', texts((a, b) => a.startsWith(b))],
  ['endsWith', texts((a, b) => a.endsWith(b))],
  ['contains', texts((a, b) => a.includes(b))],
  ['lowerAscii', text((a) => a.replace(ASCII_UPPER, (letter) => letter.toLowerCase()))],
  ['upperAscii', text((a) => a.replace(ASCII_LOWER, (letter) => letter.toUpperCase()))],
  ['trim', text((a) => a.trim())],
])

function text(change: (text: string) => string): Run {
  return ([value = null], { budget }) => {
    const given = stringOf(value)
    budget.charge(given.length * 40)
    return change(given)
  }
}

function texts(test: (text: string, part: string) => boolean): Run {
  return ([value = null, part = null], { budget }) => {
    const [whole, sought] = [stringOf(value), stringOf(part)]
    budget.charge((whole.length + sought.length) * SEARCH_NS)
    return test(whole, sought)
  }
}

export function stringOf(value: Value): string {
  return typeof value === 'string' ? value : fail(`a string is expected, not a ${typeOf(value)}`)
}

/** The length of a list, the members of a map, the code points of a text. */
function sizeOf(value: Value, { budget, members }: EvaluationState): number {
  if (isList(value)) return value.length
  if (typeof value === 'string') {
    budget.charge(value.length * COPY_NS)
    let points = 0
    for (const _ of value) points++
    return points
  }
  return isMap(value) ? members.namesOf(value).length : fail(`size is not defined for ${typeOf(value)}`)
}

function intOf(given: Value): bigint {
  const value = operand(given)
  if (typeof value === 'bigint') return value
  if (typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 2 ** 63)
    return BigInt(Math.trunc(value))
  const int = typeof value === 'string' ? intIn(value) : undefined
  return int ?? fail(`this ${typeOf(value)} is not an int`)
}

function doubleFrom(given: Value): number {
  const value = operand(given)
  if (typeof value === 'number') return value
  if (typeof value === 'bigint') return doubleOf(value)
  if (typeof value === 'string' && value.length <= 40 && JSON_NUMBER.test(value) && isExactNumber(value))
    return Number(value)
  return fail(`this ${typeOf(value)} is not a number that a double represents`)
}

function textFrom(value: Value, budget: CostBudget): string {
  if (typeof value === 'string') return value
  budget.charge(200)
  if (value instanceof JsonNumber) return value.canonical
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value)
  return fail(`string is not defined for ${typeOf(value)}`)
}

const MAX_PATTERN = 500
/** Instructions of a compiled pattern; each may run for each character. */
const MAX_PROGRAM = 200
/** Nanoseconds per character and instruction, by the slowest of the patterns that were measured. */
const STEP_NS = 25

/**
 * `matches` by RE2, whose time is linear in the text: the library would use the engine of V8, whose time is not.
 *
 * @throws {ExpressionError} for a pattern that RE2 does not accept, or that is too large
 */
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
