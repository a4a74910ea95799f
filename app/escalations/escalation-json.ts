// Escalations as JSON: for reviewers with the schemas of the admin API, and in part for callers.
import type { Escalation } from '@svc/core'
import { z } from 'zod'

const statuses = ['pending', 'approved', 'rejected'] as const
const maxListed = 500

export const escalationQuery = z.strictObject({
  status: z.enum(statuses, { error: `expected one of ${statuses.join(', ')}` }).optional(),
  tenant: z.string().optional(),
  limit: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, `expected 1 to ${maxListed}`)
    .default('100')
    .transform(Number)
    .refine((limit) => limit <= maxListed, `expected 1 to ${maxListed}`),
})

export type EscalationQuery = z.output<typeof escalationQuery>

const instantSchema = z.iso.datetime()

export const escalationSchema = z.object({
  id: z.string(),
  status: z.enum(statuses),
  tenant: z.string(),
  server: z.string(),
  tool: z.string(),
  reference: z.string().describe('mcp://<server>/<tool>@<version>'),
  principal: z.string().describe('The caller; a pseudonym if identities are redacted.'),
  reason: z.string(),
  detail: z.string().optional().describe('Why it escalated.'),
  args: z.string().optional().describe('The input in canonical JSON, its first characters if it is long.'),
  args_truncated: z.literal(true).optional(),
  severity: z.enum(['low', 'medium', 'high']),
  strategy: z.enum(['auto_allow', 'single_approver', 'human_quorum']),
  approval_set_id: z.string().optional(),
  votes: z.array(
    z.object({
      reviewer: z.string(),
      roles: z.array(z.string()).readonly(),
      vote: z.enum(['approve', 'reject']),
      comment: z.string().optional(),
      at: instantSchema,
    }),
  ),
  created_at: instantSchema,
  expires_at: instantSchema.describe(
    'The timeout; once decided, the end of the approval or of the rejection.',
  ),
  decided_at: instantSchema.optional(),
  decided_by: z.enum(['votes', 'expiry', 'strategy']).optional(),
  used: z.boolean().describe('Whether the call has used the approval.'),
  fingerprint: z.string(),
  trace_id: z.string(),
})

export const escalationListSchema = z.object({
  escalations: z.array(escalationSchema),
  more: z.boolean().describe('Whether there are others.'),
})

export type EscalationJson = z.output<typeof escalationSchema>
export type EscalationList = z.output<typeof escalationListSchema>

/** The view for reviewers: all fields, votes and comments included. Times are ISO 8601. */
export function reviewerView(escalation: Escalation): EscalationJson {
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

/** The view for callers: without reviewers and principals, as every caller of the tenant may read it. */
export function callerView(escalation: Escalation): object {
  const { id, status, reference, reason, severity } = escalation
  return { escalation_id: id, escalation_status: status, reference, reason, severity, ...outcome(escalation) }
}

function outcome({ createdAt, expiresAt, decidedAt, decidedBy, isUsed }: Escalation) {
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
