// Explains what rules decided about a call, with the values that they read.
import { isUnrecorded } from '@svc/core'
import { type CallScope, evaluateBounded, Failure, shownValue, type Variables } from './engine/index.js'
import type { ExplainedRule } from './explained-rules.js'
import type { Rule, RuleResult } from './rule.js'

export function explainRule(
  rule: Rule,
  index: number,
  result: RuleResult | undefined,
  variables: Variables,
  scope: CallScope,
): ExplainedRule {
  const { name, kind, source, then, expression } = rule
  const reads = result === undefined ? [] : (expression?.reads ?? [])
  return {
    name,
    index,
    isMatched: result !== undefined,
    kind,
    source,
    then,
    value: result?.value,
    error: result?.error,
    applies: result?.applies === true,
    reads: reads.map(({ path, evaluate }) => {
      const value = evaluateBounded(evaluate, variables, scope)
      if (isUnrecorded(value)) return { path, shown: undefined, error: 'not recorded', isAbsent: false }
      return value instanceof Failure
        ? { path, shown: undefined, error: value.message, isAbsent: value.isAbsent }
        : { path, shown: shownValue(value), error: undefined, isAbsent: false }
    }),
  }
}

/** One line: `large-refunds: require args.amount <= 100 -> false; args.amount = 240`. */
export function describeExplained({
  name,
  kind,
  source,
  then,
  value,
  error,
  applies,
  isMatched,
  reads,
}: ExplainedRule): string {
  if (!isMatched) return `${name}: does not apply to this tool`
  const condition =
    source === undefined ? 'always' : `${kind} ${source.replaceAll(/\s+/g, ' ')} -> ${error ?? String(value)}`
  const isUnforeseen = kind === 'when' && !applies
  const values = reads.map(({ path, shown, error: missing, isAbsent }) => {
    if (shown !== undefined) return `${path} = ${shown}`
    if (!isAbsent) return `${path}: ${missing}`
    return `${path} is absent${isUnforeseen ? ', which `when` lets pass: use `require`' : ''}`
  })
  return [`${name}: ${condition}${applies ? `, so ${then}` : ''}`, ...values].join('; ')
}
