// The state that the evaluations of one call share: the names of its members, and a bound on the cost.
import type { JsonObject } from '@svc/core/json'
import { foldName } from '@svc/core/match'

/** Estimated nanoseconds of all conditions of a call together: rules are many, and a caller could make each costly. */
const CALL_NS = 6_000_000

export class CallScope {
  leftNs = CALL_NS

  constructor(readonly members = new FoldedMembers()) {}
}

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

/** Why an expression has no value. Without a stack trace, which would cost more than the evaluation. */
export class Failure {
  constructor(
    readonly message: string,
    /** Whether the value is a member that is not there. */
    readonly isAbsent = false,
  ) {}
}

export function fail(message: string): never {
  throw new Failure(message)
}

export function failAbsent(name: string): never {
  throw new Failure(`${name} is absent`, true)
}

/** Nanoseconds that one evaluation may cost, by the estimates that its parts charge. */
const BUDGET_NS = 1_500_000

export class CostBudget {
  readonly #scope: CallScope
  #left: number

  constructor(scope: CallScope) {
    this.#scope = scope
    this.#left = Math.min(BUDGET_NS, scope.leftNs)
  }

  /** @throws {Failure} if the evaluation costs too much, and at each charge after that */
  charge(ns: number): void {
    this.#left -= ns
    this.#scope.leftNs -= ns
    if (this.#left < 0) fail('the condition costs too much for these arguments')
  }
}
