// Escalations as JSON: for reviewers with the schemas of the admin API, and in part for callers.
import { defined, sha256Hex } from '@svc/core/json'
import type { Enrolment, Escalation, ReviewStatus } from '@svc/plugin-enforcement'
import { z } from 'zod'

const statuses = ['pending', 'approved', 'rejected'] as const
const reviews = ['open', 'confirmed', 'objected'] as const
const maxListed = 500

export const escalationQuery = z.strictObject({
  status: z
    .enum([...statuses, 'undecided', 'decided'], {
      error: `expected one of ${statuses.join(', ')}, undecided, decided`,
    })
    .optional()
    .describe('undecided: pending, or an emergency call whose review is open; decided: all others.'),
  search: z
    .string()
    .max(200)
    .trim()
    .optional()
    .describe(
      'Words that the caller, the tool, a reviewer, a comment or the first characters of the input have, each in one of them.',
    ),
  review: z.enum(reviews, { error: `expected one of ${reviews.join(', ')}` }).optional(),
  tenant: z.string().optional(),
  enrolments: z.literal('true', { error: 'expected true' }).optional(),
  first: z.enum(['newest', 'oldest'], { error: 'expected newest or oldest' }).default('newest'),
  limit: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, `expected 1 to ${maxListed}`)
    .default('100')
    .transform(Number)
    .refine((limit) => limit <= maxListed, `expected 1 to ${maxListed}`),
  after: z
    .string()
    .regex(
      /^([A-Za-z0-9_-]{1,128}|\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z)$/,
      'expected the next of a page, or an id',
    )
    .refine((text) => !text.includes(':') || !Number.isNaN(Date.parse(text)), 'expected a time that exists')
    .optional()
    .describe('The `next` of the page before, or the id of its last escalation.'),
})

export type EscalationQuery = z.output<typeof escalationQuery>

/** A member of an authenticator's response. */
export const base64url = z
  .string()
  .max(8192)
  .regex(/^[A-Za-z0-9_-]+$/, 'expected base64url')
export const nonceSchema = z.string().max(128)

const instantSchema = z.iso.datetime()

export const escalationSchema = z.object({
  id: z.string(),
  status: z.enum(statuses),
  tenant: z.string(),
  server: z.string(),
  tool: z.string(),
  reference: z.string().describe('mcp://<server>/<tool>@<version>'),
  principal: z.string().describe('The caller; a pseudonym if identities are redacted.'),
  principal_kind: z.enum(['user', 'client']).optional().describe('Whether a user or a service agent calls.'),
  agent: z.string().optional().describe('The agent, as the caller names it; nothing verifies it.'),
  reason: z.string(),
  detail: z.string().optional().describe('Why it escalated.'),
  args: z.string().optional().describe('The input in canonical JSON, its first characters if it is long.'),
  args_truncated: z.literal(true).optional(),
  values: z
    .array(z.object({ name: z.string(), value: z.string() }))
    .readonly()
    .optional()
    .describe('Short values of the input: first those that the rules read which escalated the call.'),
  input_sha256: z
    .string()
    .optional()
    .describe('SHA-256, hex, of `args`, which a vote may repeat; absent if `args` is not the whole input.'),
  severity: z.enum(['low', 'medium', 'high']),
  strategy: z.enum(['auto_allow', 'single_approver', 'human_quorum']),
  timeout_action: z.enum(['auto_approve', 'auto_reject']).describe('The decision if nobody decides in time.'),
  quorum: z
    .object({
      approvals: z.int(),
      rejections: z.int(),
      required_roles: z.array(z.string()).readonly().describe('Roles that approvals must include.'),
      veto_roles: z.array(z.string()).readonly().describe('Roles whose rejection is final.'),
    })
    .optional()
    .describe('The votes that decide under human_quorum.'),
  approval_set_id: z.string().optional(),
  requires: z.literal('passkey').optional().describe('The proof that each vote needs.'),
  second_set_id: z.string().optional().describe('The set that may vote too, as nobody decided in time.'),
  emergency: z
    .object({ reason: z.string().optional(), review: z.enum(reviews) })
    .optional()
    .describe('The call ran before it was approved, for this reason of its caller; votes are on its review.'),
  enrolment: z
    .object({
      reviewer: z.string(),
      credential_id: z.string(),
      public_key: z.string(),
      code: z
        .string()
        .describe('The code that its owner reads to those who confirm it: digits of `input_sha256`.'),
      revoked_at: instantSchema.optional(),
    })
    .optional()
    .describe(
      'The passkey that is confirmed in place of a call; it counts from the approval until it is revoked.',
    ),
  approval_note: z
    .string()
    .optional()
    .describe('A note on the limits of an approval; absent if people vote.'),
  votes: z.array(
    z.object({
      reviewer: z.string(),
      roles: z.array(z.string()).readonly(),
      vote: z.enum(['approve', 'reject']),
      comment: z.string().optional(),
      proof: z
        .enum(['admin_token', 'user_token', 'passkey'])
        .describe('The secret that the voter has proved to have.'),
      at: instantSchema,
    }),
  ),
  created_at: instantSchema,
  expires_at: instantSchema.describe(
    'The timeout; once decided, the end of the approval or of the rejection.',
  ),
  decided_at: instantSchema.optional(),
  decided_by: z.enum(['votes', 'expiry', 'strategy', 'emergency']).optional(),
  used: z.boolean().describe('Whether the call has used the approval.'),
  fingerprint: z.string(),
  trace_id: z.string(),
})

export const escalationListSchema = z.object({
  escalations: z.array(escalationSchema),
  more: z.boolean().describe('Whether there may be others.'),
  next: z
    .string()
    .optional()
    .describe(
      'The `after` of the next page, if there are others. A request reads a limited number of escalations, so a page may have fewer than its limit, or none.',
    ),
})

export type EscalationJson = z.output<typeof escalationSchema>
export type EscalationList = z.output<typeof escalationListSchema>

/** An escalation as its reader may see it. */
export type ShownEscalation = Omit<Escalation, 'emergency'> & {
  readonly emergency?: { readonly reason?: string; readonly review: ReviewStatus }
}

const tokenNote =
  'An approval proves possession of the admin token and not who approved: without authn.oidc the gateway knows no person.'

/**
 * The view for reviewers: all fields, votes and comments included. Times are ISO 8601. `tokenVotes` says that the admin
 * token votes, and not people.
 */
export function reviewerView(escalation: ShownEscalation, tokenVotes: boolean): EscalationJson {
  const { id, status, tenant, server, tool, reference, principal, votes, traceId } = escalation
  const { reason, detail, args, severity, strategy, approvalSetId, isTruncated } = escalation
  const { principalKind, agent, values, timeoutAction, secondSetId, emergency, requiresPasskey, enrolment } =
    escalation
  return {
    id,
    status,
    tenant,
    server,
    tool,
    reference,
    principal,
    ...defined({ principal_kind: principalKind, agent }),
    reason,
    ...defined({ detail, args }),
    ...(isTruncated === true ? { args_truncated: true } : {}),
    ...defined({ values }),
    ...(args === undefined || isTruncated === true ? {} : { input_sha256: sha256Hex(args) }),
    severity,
    strategy,
    timeout_action: timeoutAction,
    ...(escalation.quorum === undefined ? {} : { quorum: quorumView(escalation.quorum) }),
    ...defined({ approval_set_id: approvalSetId }),
    ...(requiresPasskey === undefined ? {} : { requires: 'passkey' }),
    ...defined({ second_set_id: secondSetId, emergency }),
    ...(enrolment === undefined ? {} : { enrolment: enrolmentView(enrolment) }),
    ...(tokenVotes ? { approval_note: tokenNote } : {}),
    votes: votes.map(({ at, ...vote }) => ({ ...vote, at: instant(at) })),
    ...outcome(escalation),
    fingerprint: escalation.fingerprint,
    trace_id: traceId,
  }
}

function enrolmentView({ reviewer, credentialId, publicKey, code, revokedAt }: Enrolment) {
  return {
    reviewer,
    credential_id: credentialId,
    public_key: publicKey,
    code,
    ...(revokedAt === undefined ? {} : { revoked_at: instant(revokedAt) }),
  }
}

function quorumView({
  minApprovals,
  minRejections,
  requiredRoles,
  vetoRoles,
}: NonNullable<Escalation['quorum']>) {
  return {
    approvals: minApprovals,
    rejections: minRejections,
    required_roles: requiredRoles,
    veto_roles: vetoRoles,
  }
}

/** The members that callers may know: neither reviewers nor comments. */
export const callerViewSchema = escalationSchema
  .pick({
    reference: true,
    reason: true,
    severity: true,
    timeout_action: true,
    created_at: true,
    expires_at: true,
    decided_at: true,
    decided_by: true,
    used: true,
  })
  .extend({ escalation_id: z.string(), escalation_status: z.enum(statuses) })

export type CallerView = z.output<typeof callerViewSchema>

/** The view for callers: without reviewers and principals, as every caller of the tenant may read it. */
export function callerView(escalation: Escalation): CallerView {
  const { id, status, reference, reason, severity, timeoutAction } = escalation
  const call = { reference, reason, severity, timeout_action: timeoutAction }
  return { escalation_id: id, escalation_status: status, ...call, ...outcome(escalation) }
}

function outcome({ createdAt, expiresAt, decidedAt, decidedBy, isUsed }: ShownEscalation) {
  return {
    created_at: instant(createdAt),
    expires_at: instant(expiresAt),
    ...(decidedAt === undefined ? {} : { decided_at: instant(decidedAt) }),
    ...defined({ decided_by: decidedBy }),
    used: isUsed,
  }
}

function instant(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
