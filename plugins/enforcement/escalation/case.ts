// One escalation as it is kept: what the call was, by which rule it is decided, what was decided, who used it.
import type { Escalation, EscalationEntry } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { z } from 'zod'

/** Milliseconds that a decided case can still be looked up: an idempotency key must outlive no approval it used. */
const KEPT_MS = 7 * 24 * 3_600_000

const voteSchema = z.strictObject({
  reviewer: z.string(),
  /** Hashes of the names the voter goes by: one of them in common, and it is the same person. */
  person: z.array(z.string()).readonly(),
  roles: z.array(z.string()).readonly(),
  vote: z.enum(['approve', 'reject']),
  comment: z.string().optional(),
  at: z.number(),
})

/** The rule in force when the call came: a new policy does not change what people are voting on. */
const ruleSchema = z.strictObject({
  strategy: z.enum(['auto_allow', 'single_approver', 'human_quorum']),
  timeoutAction: z.enum(['auto_approve', 'auto_reject']),
  ttlMs: z.number(),
  minApprovals: z.number(),
  minRejections: z.number(),
  requiredRoles: z.array(z.string()).readonly(),
  vetoRoles: z.array(z.string()).readonly(),
  approvalSetId: z.string().optional(),
})

const caseSchema = z.strictObject({
  id: z.string(),
  fingerprint: z.string(),
  tenant: z.string(),
  server: z.string(),
  tool: z.string(),
  reference: z.string(),
  args: z.string().optional(),
  inputSha256: z.string(),
  principal: z.string(),
  /** Hash of tenant and principal. */
  principalKey: z.string(),
  /** Hashes of the names the caller goes by, like a vote's `person`. */
  caller: z.array(z.string()).readonly(),
  /** All that the call escalated for; an approval is good for these and no more. */
  reasons: z.array(z.string()).min(1).readonly(),
  detail: z.string().optional(),
  severity: z.enum(['low', 'medium', 'high']),
  rule: ruleSchema,
  status: z.enum(['pending', 'approved', 'rejected']),
  decidedBy: z.enum(['votes', 'expiry', 'strategy']).optional(),
  votes: z.array(voteSchema).readonly(),
  /** Who was let through: which hold took it, under which idempotency key (hashed). */
  use: z.strictObject({ by: z.string(), key: z.string().nullable() }).optional(),
  traceId: z.string(),
  spanId: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
  decidedAt: z.number().optional(),
})

export type Case = z.infer<typeof caseSchema>
export type CaseRule = z.infer<typeof ruleSchema>
export type CaseVote = z.infer<typeof voteSchema>

export interface Versioned {
  readonly value: Case
  readonly version: number
}

export function entryOf({ value, version }: Versioned): EscalationEntry {
  const { id, fingerprint, principalKey, status, createdAt, expiresAt, decidedBy } = value
  return {
    id,
    fingerprint,
    principal: principalKey,
    isPending: status === 'pending',
    createdAt,
    dueAt: expiresAt,
    forgetAt: decidedBy === 'strategy' ? expiresAt : expiresAt + KEPT_MS,
    version,
    body: JSON.stringify(value),
  }
}

/** @throws {Error} when the body is none of ours */
export function caseOf({ id, version, body }: EscalationEntry): Versioned {
  try {
    return { value: caseSchema.parse(JSON.parse(body)), version }
  } catch (cause) {
    throw new Error(`the escalation ${id} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

/** What callers and reviewers may see. */
export function shown(value: Case): Escalation {
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
    reason: reasons[0] ?? '',
    ...(detail === undefined ? {} : { detail }),
    ...(args === undefined ? {} : { args }),
    severity,
    strategy: rule.strategy,
    ...(rule.approvalSetId === undefined ? {} : { approvalSetId: rule.approvalSetId }),
    status,
    ...(decidedBy === undefined ? {} : { decidedBy }),
    votes: votes.map(({ reviewer, roles, vote, comment, at }) => ({
      reviewer,
      roles,
      vote,
      ...(comment === undefined ? {} : { comment }),
      at,
    })),
    isUsed: use !== undefined,
    traceId,
    createdAt,
    expiresAt,
    ...(decidedAt === undefined ? {} : { decidedAt }),
  }
}
