// Finds members of arguments. A program may read a name without regard to case or normal form, so a rule does too, and two
// members that could be read as one have no value.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { type CostBudget, Failure, failAbsent } from './evaluation.js'

/** Names whose fold changes only their case, and what folding one costs for each character. */
const PLAIN = /^[\w-]*$/
const PLAIN_NS = 2
const UNICODE_NS = 300
const NAME_NS = 80

/** The member names of the objects of one call, which do not change during it. */
export class FoldedMembers {
  #names = new Map<JsonObject, ReadonlyMap<string, string | Failure>>()

  /** The member's name as it is written; undefined if there is none. @throws {Failure} if there are two */
  find(object: JsonObject, folded: string, budget: CostBudget): string | undefined {
    let names = this.#names.get(object)
    if (names === undefined) {
      names = namesOf(object, budget)
      this.#names.set(object, names)
    }
    const found = names.get(folded)
    if (found instanceof Failure) throw found
    return found
  }
}

function namesOf(object: JsonObject, budget: CostBudget): ReadonlyMap<string, string | Failure> {
  const names = new Map<string, string | Failure>()
  for (const name of Object.keys(object)) {
    budget.charge(NAME_NS)
    const folded = foldOf(name, budget)
    const isTaken = names.has(folded)
    names.set(folded, isTaken ? new Failure(`two members could be read as "${folded.slice(0, 64)}"`) : name)
  }
  return names
}

/** The value of the member that `find` has found. */
export function memberOf(object: JsonObject, name: string | undefined, written: string): JsonValue {
  const value = name === undefined ? undefined : object[name]
  return value === undefined ? failAbsent(written) : value
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
