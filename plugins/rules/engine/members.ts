// Finds members of arguments. A program may read a name without regard to case or normal form, so a rule does too, and two
// members that could be read as one have no value.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import {
  type CostBudget,
  type Evaluate,
  type EvaluationState,
  Failure,
  fail,
  failAbsent,
  isMap,
  typeOf,
  type Value,
} from './evaluation.js'

/** Names whose fold changes only their case, and what folding one costs for each character. */
const PLAIN = /^[\w-]*$/
const PLAIN_NS = 2
const UNICODE_NS = 300
const NAME_NS = 80

/** The member names of the objects of one call, which do not change during it. */
export class FoldedMembers {
  #names = new Map<JsonObject, readonly string[]>()
  #folded = new Map<JsonObject, ReadonlyMap<string, string | Failure>>()

  /** The names as they are written. Listed once, as that takes a millisecond for an object of 10,000 members. */
  namesOf(object: JsonObject): readonly string[] {
    let names = this.#names.get(object)
    if (names === undefined) {
      names = Object.keys(object)
      this.#names.set(object, names)
    }
    return names
  }

  /** The member's name as it is written; undefined if there is none. @throws {Failure} if there are two */
  find(object: JsonObject, folded: string, budget: CostBudget): string | undefined {
    let names = this.#folded.get(object)
    if (names === undefined) {
      names = foldedNames(this.namesOf(object), budget)
      this.#folded.set(object, names)
    }
    const found = names.get(folded)
    if (found instanceof Failure) throw found
    return found
  }
}

function foldedNames(written: readonly string[], budget: CostBudget): ReadonlyMap<string, string | Failure> {
  const names = new Map<string, string | Failure>()
  for (const name of written) {
    budget.charge(NAME_NS)
    const folded = foldOf(name, budget)
    const isTaken = names.has(folded)
    names.set(folded, isTaken ? new Failure(`two members could be read as "${folded.slice(0, 64)}"`) : name)
  }
  return names
}

/** The member by a name of the policy; `written` is its path in messages. */
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

// The names of arguments repeat from call to call. Callers choose them, so the cache is bounded.
const folds = new Map<string, string>()
const MAX_FOLDS = 1024
const MAX_CACHED_LENGTH = 64

function foldOf(name: string, budget: CostBudget): string {
  const known = folds.get(name)
  if (known !== undefined) return known
  const isShort = name.length <= MAX_CACHED_LENGTH
  budget.charge(NAME_NS + name.length * (isShort && PLAIN.test(name) ? PLAIN_NS : UNICODE_NS))
  const folded = foldName(name)
  if (!isShort) return folded
  if (folds.size >= MAX_FOLDS) folds.clear()
  folds.set(name, folded)
  return folded
}
