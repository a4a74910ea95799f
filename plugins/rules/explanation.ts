// Explains what a rule decided about a call, with the values that it read.
import { isUnrecorded } from '@svc/core'
import { type CallScope, evaluateBounded, Failure, shownValue, type Variables } from './engine/index.js'
import type { Rule, RuleResult } from './rule.js'

/** One line: `large-refunds: require args.amount <= 100 -> false, so deny; args.amount = 240`. */
export function explainRule(
  { name, kind, source, then, expression }: Rule,
  { value, error, applies }: RuleResult,
  variables: Variables,
  scope: CallScope,
): string {
  const condition =
    source === undefined ? 'always' : `${kind} ${source.replaceAll(/\s+/g, ' ')} -> ${error ?? String(value)}`
  const isUnforeseen = kind === 'when' && !applies
  const reads = (expression?.reads ?? []).map(({ path, evaluate }) => {
    const read = evaluateBounded(evaluate, variables, scope)
    if (isUnrecorded(read)) return `${path}: not recorded`
    if (!(read instanceof Failure)) return `${path} = ${shownValue(read)}`
    if (!read.isAbsent) return `${path}: ${read.message}`
    return `${path} is absent${isUnforeseen ? ', which `when` lets pass: use `require`' : ''}`
  })
  return [`${name}: ${condition}${applies ? `, so ${then}` : ''}`, ...reads].join('; ')
}
