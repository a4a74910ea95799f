// The question of a rule that is confirmed: its text, with values of the call in the places of its expressions.
import {
  type CallScope,
  compileValue,
  ExpressionError,
  Failure,
  type ReadValue,
  shownValue,
  type Variables,
} from './engine/index.js'

export type RuleQuestion = (variables: Variables, scope: CallScope) => string

const place = /\{([^{}]*)\}/g

/** @throws {ExpressionError} for a mistake in an expression, at its character in the text */
export function compileQuestion(text: string, vars: Readonly<Record<string, unknown>>): RuleQuestion {
  const parts: (string | ReadValue)[] = []
  let from = 0
  for (const match of text.matchAll(place)) {
    const [whole, source = ''] = match
    parts.push(text.slice(from, match.index))
    parts.push(valueIn(source, match.index + 1, vars))
    from = match.index + whole.length
  }
  parts.push(text.slice(from))
  return (variables, scope) =>
    parts.map((part) => (typeof part === 'string' ? part : shown(part(variables, scope)))).join('')
}

function valueIn(source: string, at: number, vars: Readonly<Record<string, unknown>>): ReadValue {
  try {
    return compileValue(source, { vars })
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    throw new ExpressionError(error.message, { start: at + error.at }, { cause: error })
  }
}

/** Quoted as JSON has it, so that no value looks like a part of the question. */
function shown(value: ReturnType<ReadValue>): string {
  return value instanceof Failure ? `(${value.message})` : shownValue(value)
}
