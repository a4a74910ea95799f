// An escalation as the store keeps it: the call, the rule, the votes, the decision and its use.
import type { Escalation, EscalationEntry } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { z } from 'zod'

/** Milliseconds that a decided escalation is kept: an idempotency key should not outlive the approval it used. */
const RETENTION_MS = 7 * 24 * 3_600_000

const voteSchema = z.strictObject({
  reviewer: z.string(),
  /** Hashes of the voter's names: two votes that share one are by the same person. */
  person: z.array(z.string()).readonly(),
  roles: z.array(z.string()).readonly(),
  vote: z.enum(['approve', 'reject']),
  comment: z.string().optional(),
  at: z.number(),
})

/** The rule in force when the call arrived: a new policy does not change a running vote. */
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

const escalationSchema = z.strictObject({
  id: z.string(),
  fingerprint: z.string(),
  tenant: z.string(),
  server: z.string(),
  tool: z.string(),
  reference: z.string(),
  args: z.string().optional(),
  inputSha256: z.string(),
  /** Where `args` is truncated: the hash of the whole, as redacted as `args`. */
  wholeSha256: z.string().optional(),
  principal: z.string(),
  /** Hash of the caller as a person; the pending ones of each are counted. */
  personKey: z.string(),
  /** Hashes of the caller's names, like a vote's `person`. */
  caller: z.array(z.string()).readonly(),
  /** The reasons why the call escalated; an approval covers these alone. */
  reasons: z.array(z.string()).min(1).readonly(),
  detail: z.string().optional(),
  severity: z.enum(['low', 'medium', 'high']),
  rule: ruleSchema,
  status: z.enum(['pending', 'approved', 'rejected']),
  decidedBy: z.enum(['votes', 'expiry', 'strategy']).optional(),
  votes: z.array(voteSchema).readonly(),
  /** The call that used the approval: its hold, and its idempotency key (hashed). */
  use: z.strictObject({ by: z.string(), key: z.string().nullable() }).optional(),
  traceId: z.string(),
  spanId: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
  decidedAt: z.number().optional(),
})

export type StoredEscalation = z.infer<typeof escalationSchema>
export type StoredRule = z.infer<typeof ruleSchema>
export type StoredVote = z.infer<typeof voteSchema>

export interface VersionedEscalation {
  readonly value: StoredEscalation
  readonly version: number
}

export function toEntry({ value, version }: VersionedEscalation): EscalationEntry {
  const { id, fingerprint, personKey, status, createdAt, expiresAt, decidedBy } = value
  return {
    id,
    fingerprint,
    principal: personKey,
    isPending: status === 'pending',
    createdAt,
    dueAt: expiresAt,
    forgetAt: decidedBy === 'strategy' ? expiresAt : expiresAt + RETENTION_MS,
    version,
    body: JSON.stringify(value),
  }
}

/** @throws {Error} when the body cannot be read */
export function fromEntry({ id, version, body }: EscalationEntry): VersionedEscalation {
  try {
    return { value: escalationSchema.parse(JSON.parse(body)), version }
  } catch (cause) {
    throw new Error(`the escalation ${id} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

/** What callers and reviewers may see. */
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
    reason: reasons[0] ?? '',
    ...(detail === undefined ? {} : { detail }),
    ...(args === undefined ? {} : { args }),
    ...(value.wholeSha256 === undefined ? {} : { isTruncated: true }),
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
