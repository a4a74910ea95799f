// Expressions in CEL: parsed and checked by a library, evaluated here within a bound. Loaded by the first policy with a
// rule that has a condition.
import { EvaluationError, ParseError, TypeError as TypeMistake } from '@marcbachmann/cel-js'
import { isUnrecorded, type Unrecorded } from '@svc/core'
import { stringifyJson, visibleInLine } from '@svc/core/json'
import { CallScope, CostBudget, Failure } from './call-scope.js'
import { Compiler, type ReadPath } from './compile.js'
import type { EvaluationState, Value, Variables } from './evaluation.js'
import { ExpressionError } from './mistake.js'
import { pathOf } from './nodes.js'
import { recordedInput } from './recorded-input.js'
import { remedyFor } from './remedy.js'
import { type DeclaredType, environment, fieldsOf, isRequired, typeOfSchema, typeOfVar } from './types.js'

export type { ReadPath, Value, Variables }
export { CallScope, ExpressionError, Failure, recordedInput }

/** Characters of an expression. */
const MAX_LENGTH = 2000

export interface Declarations {
  /** One value of each variable, for its type. */
  readonly vars: Readonly<Record<string, unknown>>
  /** JSON Schema of the arguments, if it is known. */
  readonly schema?: unknown
}

export interface Expression {
  /** The paths that it reads, in the order of the text. */
  readonly reads: readonly ReadPath[]
  /** Whether the variable, or the member of one, is read. */
  mentions(path: string): boolean
  /** Members of `args` that it reads, which the schema does not require, without asking by `has`. */
  readonly optional: readonly string[]
  evaluate(variables: Variables, scope: CallScope): Value | Failure | Unrecorded
}

/** @throws {ExpressionError} for a mistake in the text */
export function compileExpression(source: string, { vars, schema }: Declarations): Expression {
  if (source.length > MAX_LENGTH) {
    throw new ExpressionError(`too long; accepted are at most ${MAX_LENGTH} characters`, undefined)
  }
  const args: DeclaredType = schema === undefined ? 'map<string, dyn>' : typeOfSchema(schema)
  const parsed = attemptLibrary(source, () => environment(typesOf(vars), args).parse(source))
  const checked = parsed.check()
  if (!checked.valid) throw mistakeOf(checked.error, source)
  if (checked.type !== 'bool' && checked.type !== 'dyn') {
    throw new ExpressionError(`the condition is a ${checked.type}; accepted is a bool`, undefined)
  }
  const compiler = new Compiler(fieldsOf(vars), source)
  const run = compiler.compile(parsed.ast)
  const reads = [...compiler.reads.values()]
  return {
    reads,
    mentions: (path) =>
      reads.some((read) => read.path.startsWith(path) && /^(?:$|[.[])/.test(read.path.slice(path.length))),
    optional: schema === undefined ? [] : optionalIn(reads, schema),
    evaluate: (variables, scope) => evaluateBounded(run, variables, scope),
  }
}

export type ReadValue = (variables: Variables, scope: CallScope) => Value | Failure

/** An expression of any type. @throws {ExpressionError} for a mistake in the text */
export function compileValue(source: string, { vars }: Declarations): ReadValue {
  if (source.length > MAX_LENGTH)
    throw new ExpressionError(`too long; accepted are at most ${MAX_LENGTH} characters`, undefined)
  const parsed = attemptLibrary(source, () => environment(typesOf(vars), 'map<string, dyn>').parse(source))
  const checked = parsed.check()
  if (!checked.valid) throw mistakeOf(checked.error, source)
  const run = new Compiler(fieldsOf(vars), source).compile(parsed.ast)
  return (variables, scope) => {
    const value = evaluateBounded(run, variables, scope)
    return isUnrecorded(value) ? new Failure('not recorded') : value
  }
}

const MAX_SHOWN = 80

/** A value as JSON, shortened, with hidden characters marked. */
export function shownValue(value: Value): string {
  const text = typeof value === 'bigint' ? `${value}` : (stringifyJson(value) ?? '')
  return visibleInLine(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text)
}

/** The value at a path that is written out, such as `args.customer.id`. @throws {ExpressionError} for any other text */
export function compilePath(source: string, { vars }: Declarations): ReadPath {
  const parsed = attemptLibrary(source, () => environment(typesOf(vars), 'map<string, dyn>').parse(source))
  const checked = parsed.check()
  if (!checked.valid) throw mistakeOf(checked.error, source)
  const compiler = new Compiler(fieldsOf(vars), source)
  compiler.compile(parsed.ast)
  const [read] = compiler.reads.values()
  if (read !== undefined && pathOf(parsed.ast) !== undefined) return read
  throw new ExpressionError('accepted is a path such as args.amount', undefined)
}

function typesOf(vars: Declarations['vars']): Record<string, string> {
  return Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, typeOfVar(value)]))
}

function optionalIn(reads: readonly ReadPath[], schema: unknown): string[] {
  return reads.flatMap(({ path, names, isTested }) =>
    names[0] === 'args' && !isTested && !isRequired(schema, names.slice(1)) ? [path] : [],
  )
}

/** The value of a read, or why it has none; of a recorded call, whether it depends on what was not recorded. */
export function evaluateBounded(
  run: (evaluation: EvaluationState) => Value,
  variables: Variables,
  scope: CallScope,
): Value | Failure | Unrecorded {
  try {
    return run({ variables, members: scope.members, budget: new CostBudget(scope), locals: [] })
  } catch (error) {
    if (error instanceof Failure || isUnrecorded(error)) return error
    throw error
  }
}

function attemptLibrary<T>(source: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw mistakeOf(error, source)
  }
}

/** The library's message without its excerpt of the text, with a remedy and the place. Any other error is not about the text. */
function mistakeOf(error: unknown, source: string): unknown {
  if (!(error instanceof ParseError || error instanceof TypeMistake || error instanceof EvaluationError))
    return error
  const summary = error.summary.replaceAll('$', '')
  const remedy = remedyFor(summary, source)
  const message = `${summary.charAt(0).toLowerCase()}${summary.slice(1)}${remedy === undefined ? '' : `; ${remedy}`}`
  return new ExpressionError(message, error.range, { cause: error })
}
