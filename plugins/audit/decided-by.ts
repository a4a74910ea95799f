// The part of the policy that decided a call, for the record: the stage, and its rule, pattern, limit or approval.
import { type Call, decidingPattern, escalation, type Outcome, type RecordedFinding } from '@svc/core'
import type { AuditEnvelope } from './log/format/envelope.js'

type DecidedBy = NonNullable<AuditEnvelope['decided_by']>

/** A call that was sent, or would have been, was decided by its approval, or by what allows its tool. */
export function decidedBy(
  call: Call,
  outcome: Outcome | undefined,
  findings: readonly RecordedFinding[],
): DecidedBy {
  const pattern = call.get(decidingPattern)
  const ofPattern = pattern === undefined ? {} : { pattern }
  const denying = findings.find(({ effect }) => effect === 'deny')
  if (denying !== undefined) return refusedBy(denying.stage, denying.reason, ofPattern)
  if (outcome === undefined || outcome.kind === 'completed' || call.sent !== 'no') {
    const escalated = call.get(escalation)
    if (escalated !== undefined) return { stage: 'enforcement', approval: escalated.id }
    return { stage: 'entitlements', ...ofPattern }
  }
  const { type, reason, limit } = outcome.kind === 'denied' ? (outcome.denial ?? {}) : {}
  const stage = type ?? call.endedBy ?? 'gateway'
  if (limit !== undefined) return { stage, limit }
  return reason === undefined ? { stage } : refusedBy(stage, reason, ofPattern)
}

function refusedBy(stage: string, rule: string, ofPattern: object): DecidedBy {
  return rule === 'tool_in_denylist' ? { stage, rule, ...ofPattern } : { stage, rule }
}
