// How the decision of a policy about a recorded call differs from the one that was recorded.

import { stricter } from '../judge/judge.js'
import type { Decided } from './decide.js'
import type { RecordedVerdict } from './recorded-verdict.js'

export const changes = [
  'same',
  'now denied',
  'now escalated',
  'now confirmed',
  'now allowed',
  'maybe denied',
  'maybe escalated',
  'maybe confirmed',
  'maybe allowed',
  'unknown',
] as const
export type Change = (typeof changes)[number]

const PAST = { allow: 'allowed', confirm: 'confirmed', escalate: 'escalated', deny: 'denied' } as const

/** The values that a rule may keep, so that the record of a later call has them. */
const KEPT = /^(?:args|params|caller|claimed|tool|call)[.[]/

export function changeOf({ decision }: RecordedVerdict, { least, most, missing }: Decided): Change {
  if (least === most) return least === decision ? 'same' : `now ${PAST[least]}`
  const mayTighten = stricter(most, decision)
  if (!missing.every((fact) => KEPT.test(fact)) || (mayTighten && stricter(decision, least))) return 'unknown'
  return `maybe ${PAST[mayTighten ? most : least]}`
}

/** Whether a call that was allowed is not, or may not be. */
export function isLoss({ decision }: RecordedVerdict, change: Change): boolean {
  return decision === 'allow' && change !== 'same'
}

/** Why the decision changed: a reason, a reason that is gone, or what was not recorded. */
export function whyChanged({ reasons }: RecordedVerdict, decided: Decided, change: Change): string {
  if (change === 'now allowed') return `${reasons.join(', ')} gone`
  if (decided.missing.length === 0) return decided.reasons.join(', ')
  const stated = decided.missing.every((fact) => KEPT.test(fact)) ? 'not kept' : 'not recorded'
  return `${decided.missing.join(', ')} ${stated}`
}
