// An escalation as callers and reviewers may see it.
import { defined } from '@svc/core/json'
import type { Escalation } from './service.js'
import type { StoredEscalation } from './stored-escalation.js'

export function publicView(value: StoredEscalation): Escalation {
  const { rule, votes, use, reasons } = value
  const { id, fingerprint, tenant, server, tool, reference, principal, severity, status, traceId } = value
  const { args, detail, decidedBy, createdAt, expiresAt, decidedAt } = value
  return {
    id,
    fingerprint,
    tenant,
    server,
    tool,
    reference,
    principal,
    ...defined({ principalKind: value.principalKind, agent: value.agent }),
    reason: reasons[0] ?? '',
    ...defined({ detail, opening: value.opening, args, values: value.values }),
    ...(value.wholeSha256 === undefined ? {} : { isTruncated: true }),
    severity,
    strategy: rule.strategy,
    timeoutAction: rule.timeoutAction,
    ...(rule.strategy === 'human_quorum' ? { quorum: quorumOf(rule) } : {}),
    ...defined({ approvalSetId: rule.approvalSetId, requiresPasskey: rule.requiresPasskey }),
    ...secondSet(value),
    status,
    ...defined({ decidedBy }),
    ...(value.emergency === undefined
      ? {}
      : { emergency: { reason: value.emergency.reason, review: value.emergency.review } }),
    ...publicEnrolment(value),
    votes: votes.map(({ person, comment, ...vote }) => ({
      ...vote,
      ...defined({ comment }),
    })),
    isUsed: use !== undefined,
    ...defined({ usedAt: use?.at }),
    traceId,
    createdAt,
    expiresAt,
    ...defined({ decidedAt }),
  }
}

/** The set that may vote too, once its time has come. */
function secondSet({ step, rule }: StoredEscalation): Pick<Escalation, 'secondSetId'> {
  return step === 'second_set' && rule.secondSet !== undefined ? { secondSetId: rule.secondSet.setId } : {}
}

/** These members say who votes on it. */
export function votersView(value: StoredEscalation) {
  const { tenant, rule } = value
  return {
    tenant,
    ...defined({ approvalSetId: rule.approvalSetId }),
    ...secondSet(value),
  }
}

/** With 64 bits nobody finds another key that has the code; a program could choose the id of a credential. */
const CODE_DIGITS = 16

function publicEnrolment(value: StoredEscalation): Pick<Escalation, 'enrolment'> {
  const { enrolment, inputSha256 } = value
  if (enrolment === undefined) return {}
  const { revokedAt, ...rest } = enrolment
  const code = inputSha256.slice(0, CODE_DIGITS).replace(/.{4}(?=.)/g, '$& ')
  return { enrolment: { ...rest, code, ...defined({ revokedAt }) } }
}

function quorumOf({ minApprovals, minRejections, requiredRoles, vetoRoles }: StoredEscalation['rule']) {
  return { minApprovals, minRejections, requiredRoles, vetoRoles }
}
