// The common parts of every evaluation: its values, and the operators that failures and unrecorded facts decide.
import { isUnrecorded, Unrecorded } from '@svc/core'
import { JsonNumber, type JsonObject, type JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { type CostBudget, Failure, type FoldedMembers, fail, failAbsent } from './call-scope.js'

/** `int` is a bigint and `double` a number, as in CEL, or a number of the call with its text; a timestamp is a Date. */
export type Value =
  | null
  | boolean
  | number
  | JsonNumber
  | string
  | bigint
  | Date
  | TypeName
  | JsonObject
  | readonly Value[]

export class TypeName {
  constructor(readonly name: string) {}
}

/** Estimated nanoseconds of evaluating one node of an expression, and of one failure that another value makes up for. */
export const NODE_NS = 40
const FAILURE_NS = 1500

/** The variables of a call. Records have own properties for what is known. */
export interface Variables {
  readonly args: JsonValue
  readonly params: JsonObject
  readonly caller: Readonly<Record<string, unknown>>
  readonly claimed: Readonly<Record<string, unknown>>
  readonly tool: Readonly<Record<string, unknown>>
  readonly call: Readonly<Record<string, unknown>>
  readonly vars: Readonly<Record<string, unknown>>
}

export interface EvaluationState {
  readonly variables: Variables
  readonly members: FoldedMembers
  readonly budget: CostBudget
  /** The values of the variables of macros, by their depth. */
  readonly locals: Value[]
}

export type Evaluate = (evaluation: EvaluationState) => Value

/** The value, its failure, or that it reads what was not recorded. Other errors pass. */
export function attemptValue(evaluate: Evaluate, evaluation: EvaluationState): Value | Failure | Unrecorded {
  try {
    return evaluate(evaluation)
  } catch (error) {
    if (isUnrecorded(error)) return error
    if (!(error instanceof Failure)) throw error
    evaluation.budget.charge(FAILURE_NS)
    return error
  }
}

/** @throws {Failure} in place of the value */
export function given(value: Value | Failure): Value {
  if (value instanceof Failure) throw value
  return value
}

/** Two operands. One that fails decides, whatever the other is, as the operator then fails too. */
export function operands(left: Evaluate, right: Evaluate, evaluation: EvaluationState): [Value, Value] {
  let first: Value
  try {
    first = left(evaluation)
  } catch (error) {
    if (!isUnrecorded(error)) throw error
    const second = attemptValue(right, evaluation)
    throw isUnrecorded(second) ? joined(error, second) : second instanceof Failure ? second : error
  }
  return [first, right(evaluation)]
}

/** Why no element of a list decides: one that was not recorded might, before one that fails. */
export class Undecided {
  #first: Failure | Unrecorded | undefined

  note(value: Value | Failure | Unrecorded): Value | undefined {
    if (isUnrecorded(value)) {
      this.#first = isUnrecorded(this.#first) ? joined(this.#first, value) : value
      return undefined
    }
    if (!(value instanceof Failure)) return value
    this.#first ??= value
    return undefined
  }

  throwFirst(): void {
    if (this.#first !== undefined) throw this.#first
  }
}

/** The unrecorded facts of two parts of an expression. */
function joined(a: Unrecorded, b: Unrecorded): Unrecorded {
  return new Unrecorded([...new Set([...a.facts, ...b.facts])])
}

export function typeOf(value: Value): string {
  if (value === null) return 'null_type'
  if (isList(value)) return 'list'
  if (value instanceof Date) return 'timestamp'
  if (value instanceof TypeName) return 'type'
  if (value instanceof JsonNumber) return 'double'
  switch (typeof value) {
    case 'bigint':
      return 'int'
    case 'number':
      return 'double'
    case 'boolean':
      return 'bool'
    case 'string':
      return 'string'
    default:
      return 'map'
  }
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value)
}

export function isMap(value: Value): value is JsonObject {
  return typeOf(value) === 'map'
}

/** True if either decides, also if the other fails, as CEL has it; without `isOr` false. */
export function eitherDecides(isOr: boolean, left: Evaluate, right: Evaluate): Evaluate {
  return (evaluation) => {
    const first = attemptValue(left, evaluation)
    if (first === isOr) return isOr
    if (isUnrecorded(first)) return decidedBy(isOr, first, attemptValue(right, evaluation))
    const second = booleanOf(right(evaluation))
    if (second === isOr) return isOr
    if (first instanceof Failure) throw first
    booleanOf(first)
    return !isOr
  }
}

/** A part that was not recorded may be the one that decides, even if the other fails. */
function decidedBy(isOr: boolean, missing: Unrecorded, other: Value | Failure | Unrecorded): boolean {
  if (other === isOr) return isOr
  throw isUnrecorded(other) ? joined(missing, other) : missing
}

export function booleanOf(value: Value): boolean {
  return typeof value === 'boolean' ? value : fail(`a bool is expected, not a ${typeOf(value)}`)
}

/**
 * The member by a name of the policy; `written` is its path in messages. A program may read a name without regard to case or
 * normal form, so a rule does too, and two members that could be read as one have no value.
 */
export function member(of: Evaluate, name: string, written: string): Evaluate {
  const folded = foldName(name)
  return (evaluation) => {
    const value = of(evaluation)
    if (!isMap(value)) return fail(`a ${typeOf(value)} has no member ${name.slice(0, 64)}`)
    const found = memberOf(value, folded, evaluation)
    return found === undefined ? failAbsent(written.slice(0, 128)) : found
  }
}

/** The member by a name of the call, which messages do not show: they are recorded, and it may be a secret. */
export function computedMember(value: Value, name: string, evaluation: EvaluationState): Value {
  evaluation.budget.charge(name.length * 10)
  const found = memberOf(mapOf(value), foldName(name), evaluation)
  return found === undefined ? failAbsent('a member with a computed name') : found
}

export function hasMember(value: Value, folded: string, { members, budget }: EvaluationState): boolean {
  return members.find(mapOf(value), folded, budget) !== undefined
}

function memberOf(
  object: JsonObject,
  folded: string,
  { members, budget }: EvaluationState,
): JsonValue | undefined {
  const name = members.find(object, folded, budget)
  return name === undefined ? undefined : object[name]
}

function mapOf(value: Value): JsonObject {
  return isMap(value) ? value : fail(`a ${typeOf(value)} has no members`)
}
