// The rules on what arguments hold, over one walk.
import type { CallRequest, Finding } from '@svc/core'
import { shownPath } from '@svc/core/json'
import { finding } from '../findings.js'
import { type Effort, eachString } from './walk.js'

/** Judges one string that stands under keys of these marks. */
export interface StringRule {
  /** The reason token of its findings. */
  readonly reason: string
  /** The key of the section that the rule is made from. */
  readonly list: string
  readonly rule: {
    /** The list as it is written. */
    readonly sources: readonly string[]
    violation(text: string, marks: number, effort: Effort): string | undefined
  }
}

/** Findings of one reason: a record must not grow with what a hostile caller sends. */
const MAX_FINDINGS = 8

/**
 * What the rules find in the arguments, in the order in which it stands there. Past eight of one reason only their
 * number is told. What the protocol itself carries is no argument.
 */
export function judgeContent(
  { kind, args }: Pick<CallRequest, 'kind' | 'args'>,
  rules: readonly StringRule[],
  effort: Effort = { steps: 0 },
): Finding[] {
  if (kind === 'protocol' || rules.length === 0) return []
  const counts = rules.map(() => 0)
  const findings: Finding[] = []
  eachString(args, (text, marks, place) => {
    for (const [i, { reason, rule }] of rules.entries()) {
      const violation = rule.violation(text, marks, effort)
      if (violation === undefined) continue
      const count = (counts[i] ?? 0) + 1
      counts[i] = count
      if (count <= MAX_FINDINGS) findings.push(finding(reason, `${shownPath(place)} ${violation}`))
    }
  })
  for (const [i, { reason }] of rules.entries()) {
    const more = (counts[i] ?? 0) - MAX_FINDINGS
    if (more > 0) findings.push(finding(reason, `${more} more in the arguments`))
  }
  return findings
}
