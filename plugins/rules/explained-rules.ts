// The decisions of rules about a call, with the values that they read: for `svc policy explain` and tests of policies.
import { slot } from '@svc/core'
import type { Rule, RuleKind, RuleResult } from './rule.js'

export interface ExplainedRead {
  /** `args.amount`. */
  readonly path: string
  /** The value in JSON, shortened; undefined if there is none. */
  readonly shown: string | undefined
  /** Why it has no value, for example `amount is absent`. */
  readonly error: string | undefined
  /** Whether it is a member that is not there. */
  readonly isAbsent: boolean
}

export interface ExplainedRule extends RuleResult {
  readonly name: string
  /** Its position in `rules`. */
  readonly index: number
  /** False for a rule of other tools, which was not judged. */
  readonly isMatched: boolean
  readonly kind: RuleKind
  /** The text of its condition. */
  readonly source: string | undefined
  readonly then: Rule['then']
  readonly reads: readonly ExplainedRead[]
}

/** All rules of the policy, in its order; set by `explain`. */
export const explainedRules = slot<readonly ExplainedRule[]>('rules/explained')
