// Reads from a record what the policy in force decided about its call.
import type { RecordedFinding } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { emergencyReason } from '@svc/plugin-enforcement'
import type { CallDecision } from '../judge/judge.js'

export interface RecordedVerdict {
  readonly decision: CallDecision
  /** The reasons of a decision that is not `allow`. */
  readonly reasons: readonly string[]
  /** The findings before the call was sent. */
  readonly findings: readonly RecordedFinding[]
  /** Whether every stage that judges has judged the call. */
  readonly isWhole: boolean
  /** Whether bytes of it may have been sent. */
  readonly isSent: boolean
}

/** The server could not be asked about a call that was allowed. */
const OF_SERVER: ReadonlySet<string> = new Set(['UPSTREAM', 'UPSTREAM_UNREACHABLE'])

/** Whether the record is of a call, not of an event or of many refused requests. */
export function isCall({ server, gateway }: SignedEnvelope): boolean {
  return server !== gateway && server !== 'many@unversioned'
}

/** Whether the caller let it run before people had decided. */
export function isEmergency({ findings = [], escalation_id }: SignedEnvelope): boolean {
  return escalation_id !== undefined && findings.some(({ reason }) => reason === emergencyReason)
}

/**
 * Undefined for a call that the policy did not judge: one without a valid token, an invalid or a stopped one. `later` has
 * the stages after the verdict.
 */
export function verdictOf(record: SignedEnvelope, later: ReadonlySet<string>): RecordedVerdict | undefined {
  const { findings = [], sent, error, decided_by: decidedBy } = record
  // A call that was sent was not denied before; what denies it was found in the response.
  const isSent = sent !== 'no'
  const before = !isSent ? findings : findings.filter(({ effect }) => effect !== 'deny')
  const ran = { decision: 'allow', reasons: [], findings: before, isWhole: true, isSent } as const
  for (const effect of ['deny', 'escalate', 'confirm'] as const) {
    if (effect === 'escalate' && isEmergency(record)) return ran
    const reasons = before.filter((finding) => finding.effect === effect).map(({ reason }) => reason)
    if (reasons.length > 0) return { decision: effect, reasons, findings: before, isWhole: true, isSent }
  }
  const isAllowed = sent !== 'no' || error === undefined || OF_SERVER.has(error)
  if (isAllowed || later.has(decidedBy?.stage ?? '')) {
    return ran
  }
  if (decidedBy?.rule === undefined) return undefined
  return { decision: 'deny', reasons: [decidedBy.rule], findings: before, isWhole: false, isSent }
}
