// Escalations as JSON: in full for reviewers, in part for callers.
import type { Escalation } from '@svc/core'

/** For reviewers: all fields, votes and comments included. Times are ISO 8601. */
export function reviewerView(escalation: Escalation): object {
  const { id, status, tenant, server, tool, reference, principal, votes, traceId } = escalation
  const { reason, detail, args, severity, strategy, approvalSetId, isTruncated } = escalation
  return {
    id,
    status,
    tenant,
    server,
    tool,
    reference,
    principal,
    reason,
    ...(detail === undefined ? {} : { detail }),
    ...(args === undefined ? {} : { args }),
    ...(isTruncated === true ? { args_truncated: true } : {}),
    severity,
    strategy,
    ...(approvalSetId === undefined ? {} : { approval_set_id: approvalSetId }),
    votes: votes.map(({ reviewer, roles, vote, comment, at }) => ({
      reviewer,
      roles,
      vote,
      ...(comment === undefined ? {} : { comment }),
      at: instant(at),
    })),
    ...outcome(escalation),
    fingerprint: escalation.fingerprint,
    trace_id: traceId,
  }
}

/** For callers: no reviewer and no principal, as every caller of the tenant may read it. */
export function callerView(escalation: Escalation): object {
  const { id, status, reference, reason, severity } = escalation
  return { escalation_id: id, escalation_status: status, reference, reason, severity, ...outcome(escalation) }
}

function outcome({ createdAt, expiresAt, decidedAt, decidedBy, isUsed }: Escalation): object {
  return {
    created_at: instant(createdAt),
    expires_at: instant(expiresAt),
    ...(decidedAt === undefined ? {} : { decided_at: instant(decidedAt) }),
    ...(decidedBy === undefined ? {} : { decided_by: decidedBy }),
    used: isUsed,
  }
}

function instant(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}

/** The characters of an escalation's id, so that nothing else reaches a store. */
export function isEscalationId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text)
}
