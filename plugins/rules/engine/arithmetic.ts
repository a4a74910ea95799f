// Operators on values. A number of JSON is a double and a whole number of an expression an int, so every pair of the two
// is defined; a result that is not exact is a failure, not a rounded value.
import { compareNumbers, JsonNumber } from '@svc/core/json'
import { type CostBudget, fail } from './call-scope.js'
import {
  attemptValue,
  type EvaluationState,
  isList,
  isMap,
  TypeName,
  typeOf,
  Undecided,
  type Value,
} from './evaluation.js'

const INTEGER = /^-?(?:0|[1-9]\d{0,18})$/
const MIN_INT = -(2n ** 63n)
const MAX_INT = 2n ** 63n - 1n
/** Items of a list, or characters of a text, that an operator may create. */
const MAX_CREATED = 20_000
const PAIR_NS = 30

type Arithmetic = '+' | '-' | '*' | '/' | '%'

export function calculate(
  operator: Arithmetic,
  left: Value,
  right: Value,
  { budget }: EvaluationState,
): Value {
  const [a, b] = [operand(left), operand(right)]
  if (typeof a === 'number' && typeof b === 'number') return exactly(operator, a, b)
  if (typeof a === 'bigint' && typeof b === 'bigint') return inRange(operator, a, b)
  if (typeof a === 'number' && typeof b === 'bigint') return exactly(operator, a, doubleOf(b))
  if (typeof a === 'bigint' && typeof b === 'number') return exactly(operator, doubleOf(a), b)
  if (operator === '+' && typeof a === 'string' && typeof b === 'string') {
    chargeCreated(a.length + b.length, budget)
    return a + b
  }
  if (operator === '+' && isList(a) && isList(b)) {
    chargeCreated(a.length + b.length, budget)
    return [...a, ...b]
  }
  return fail(`${operator} is not defined for ${typeOf(a)} and ${typeOf(b)}`)
}

function chargeCreated(length: number, budget: CostBudget): void {
  if (length > MAX_CREATED) fail('the condition creates a value that is too large')
  budget.charge(length * 5)
}

function inRange(operator: Arithmetic, a: bigint, b: bigint): bigint {
  if ((operator === '/' || operator === '%') && b === 0n) return fail('division by zero')
  const result =
    operator === '+'
      ? a + b
      : operator === '-'
        ? a - b
        : operator === '*'
          ? a * b
          : operator === '/'
            ? a / b
            : a % b
  return result < MIN_INT || result > MAX_INT ? fail('the result is out of range') : result
}

function exactly(operator: Arithmetic, a: number, b: number): number {
  const isWhole = Number.isInteger(a) && Number.isInteger(b)
  if ((operator === '/' || operator === '%') && b === 0) return fail('division by zero')
  if (operator === '%' && !isWhole) return fail('% is defined for whole numbers')
  const result =
    operator === '+'
      ? a + b
      : operator === '-'
        ? a - b
        : operator === '*'
          ? a * b
          : operator === '/'
            ? a / b
            : a % b
  if (!Number.isFinite(result)) return fail('the result is out of range')
  // Whole numbers stay exact up to 2^53; beyond it a sum is rounded, and the remainder and quotient of such numbers too.
  if (isWhole && !Number.isSafeInteger(result) && operator !== '/') return fail('the result is not exact')
  return result
}

/** @throws {Failure} for an int that no double represents */
export function doubleOf(int: bigint): number {
  const double = Number(int)
  return BigInt(double) === int ? double : fail(`${int} is not exact as a number`)
}

export function negate(given: Value): Value {
  const value = operand(given)
  if (typeof value === 'number') return -value
  if (typeof value === 'bigint') return value === MIN_INT ? fail('the result is out of range') : -value
  return fail(`- is not defined for ${typeOf(value)}`)
}

/** A number of the call as a double or an int. @throws {Failure} for one that neither represents */
export function operand(value: Value): Value {
  if (!(value instanceof JsonNumber)) return value
  return value.double ?? intIn(value.canonical) ?? fail('a number of the call is not exact as a number')
}

/** The 64-bit integer in the text. */
export function intIn(text: string): bigint | undefined {
  if (!INTEGER.test(text)) return undefined
  const int = BigInt(text)
  return int < MIN_INT || int > MAX_INT ? undefined : int
}

/** Numbers are compared by their exact values, whatever their types. */
export function compare(
  operator: '<' | '<=' | '>' | '>=',
  a: Value,
  b: Value,
  { budget }: EvaluationState,
): boolean {
  if (typeof a === 'string') budget.charge(PAIR_NS + a.length / 4)
  if (isNumber(a) && isNumber(b)) {
    const order = orderOf(a, b)
    return operator.startsWith('<')
      ? order < 0 || (order === 0 && operator === '<=')
      : order > 0 || (order === 0 && operator === '>=')
  }
  if (isOrdered(a) && isOrdered(b) && typeOf(a) === typeOf(b)) {
    switch (operator) {
      case '<':
        return a < b
      case '<=':
        return a <= b
      case '>':
        return a > b
      case '>=':
        return a >= b
    }
  }
  return fail(`${operator} is not defined for ${typeOf(a)} and ${typeOf(b)}`)
}

type Ordered = string | Date

function isOrdered(value: Value): value is Ordered {
  return typeof value === 'string' || value instanceof Date
}

function isNumber(value: Value): value is number | bigint | JsonNumber {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof JsonNumber
}

/** As `compareNumbers`; doubles that are written with all their digits need no decimals. */
function orderOf(a: number | bigint | JsonNumber, b: number | bigint | JsonNumber): number {
  if (
    typeof a === 'number' &&
    (typeof b === 'number' || (typeof b === 'bigint' && Number.isSafeInteger(Number(b))))
  )
    return a - Number(b)
  return compareNumbers(a, b)
}

/**
 * Values of two types are not compared, within lists and maps too: a text in place of a number must not pass as another
 * number. Null is.
 */
export function isEqual(a: Value, b: Value, evaluation: EvaluationState): boolean {
  const { budget, members } = evaluation
  budget.charge(PAIR_NS)
  if (isNumber(a) && isNumber(b)) return orderOf(a, b) === 0
  if (a === null || b === null) return a === b
  if (typeOf(a) !== typeOf(b)) return fail(`== is not defined for ${typeOf(a)} and ${typeOf(b)}`)
  if (typeof a === 'string' && typeof b === 'string') {
    if (a.length !== b.length) return false
    budget.charge(a.length / 4)
    return a === b
  }
  if (a instanceof Date && b instanceof Date) return a.getTime() === b.getTime()
  if (a instanceof TypeName && b instanceof TypeName) return a.name === b.name
  if (isList(a) && isList(b)) {
    return a.length === b.length && a.every((item, at) => isEqual(item, b[at] ?? null, evaluation))
  }
  if (isMap(a) && isMap(b)) {
    const names = members.namesOf(a)
    return (
      names.length === members.namesOf(b).length &&
      names.every((name) => Object.hasOwn(b, name) && isEqual(a[name] ?? null, b[name] ?? null, evaluation))
    )
  }
  return a === b
}

/** Whether an item is equal; a failure counts only if none is. */
export function isAmong(sought: Value, items: readonly Value[], evaluation: EvaluationState): boolean {
  const undecided = new Undecided()
  for (const item of items) {
    if (undecided.note(attemptValue(() => isEqual(sought, item, evaluation), evaluation)) === true)
      return true
  }
  undecided.throwFirst()
  return false
}
