// Finds members of arguments. A program may read a name without regard to case or normal form, so a rule does too, and two
// members that could be read as one have no value.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { fail, failAbsent } from './call-scope.js'
import { type Evaluate, type EvaluationState, isMap, typeOf, type Value } from './evaluation.js'

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
