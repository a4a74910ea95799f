// The macros of CEL: what they make of the elements of a list.
import { fail } from './call-scope.js'
import {
  attemptValue,
  booleanOf,
  type Evaluate,
  type EvaluationState,
  isList,
  isMap,
  typeOf,
  Undecided,
  type Value,
} from './evaluation.js'

/** Elements that a macro visits. */
const MAX_ELEMENTS = 1000

interface MacroRun {
  readonly items: readonly Value[]
  /** The place of the macro's variable. */
  readonly depth: number
  readonly evaluation: EvaluationState
  readonly first: Evaluate
  readonly second: Evaluate | undefined
}

export type Macro = (run: MacroRun) => Value

export const macros: ReadonlyMap<string, Macro> = new Map<string, Macro>([
  ['all', (run) => !quantify(run, false)],
  ['exists', (run) => quantify(run, true)],
  ['exists_one', (run) => run.items.filter((item) => holds(run, item)).length === 1],
  ['filter', (run) => run.items.filter((item) => holds(run, item))],
  ['map', mapped],
])

/** The elements of a list, or the names of a map. */
export function elementsOf(value: Value, { members }: EvaluationState): readonly Value[] {
  const items = isList(value) ? value : isMap(value) ? members.namesOf(value) : undefined
  if (items === undefined) return fail(`a list is expected, not a ${typeOf(value)}`)
  return items.length > MAX_ELEMENTS ? fail(`a macro visits at most ${MAX_ELEMENTS} elements`) : items
}

/** Whether the condition has the value for some element; a failure counts only if none has. */
function quantify({ items, depth, evaluation, first }: MacroRun, wanted: boolean): boolean {
  const condition: Evaluate = (inner) => booleanOf(first(inner))
  const undecided = new Undecided()
  for (const item of items) {
    evaluation.locals[depth] = item
    if (undecided.note(attemptValue(condition, evaluation)) === wanted) return true
  }
  undecided.throwFirst()
  return false
}

function holds({ depth, evaluation, first }: MacroRun, item: Value): boolean {
  evaluation.locals[depth] = item
  return booleanOf(first(evaluation))
}

/** `map(x, value)`, or `map(x, condition, value)`. */
function mapped(run: MacroRun): Value {
  const { items, depth, evaluation, first, second } = run
  const chosen = second === undefined ? items : items.filter((item) => holds(run, item))
  return chosen.map((item) => {
    evaluation.locals[depth] = item
    return (second ?? first)(evaluation)
  })
}
