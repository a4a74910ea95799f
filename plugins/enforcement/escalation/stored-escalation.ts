// An escalation as the store keeps it, and how votes and time decide it: pure functions of the escalation, the vote and the time.
import { defined, messageOf } from '@svc/core/json'
import { z } from 'zod'
import type { EscalationEntry } from '../store/entries.js'
import { VoteError } from './service.js'

/** Milliseconds that a decided escalation is kept: an idempotency key should not outlive the approval it used. */
const RETENTION_MS = 7 * 24 * 3_600_000

/** Milliseconds between two notices of a review that is open. */
const REVIEW_REMINDER_MS = 24 * 3_600_000

/** A time that no clock reaches, and every store can order. */
const NEVER = Number.MAX_SAFE_INTEGER

const voteSchema = z.strictObject({
  reviewer: z.string(),
  /** Hashes of the voter's names: two votes with a common hash are by the same person. */
  person: z.array(z.string()).readonly(),
  roles: z.array(z.string()).readonly(),
  vote: z.enum(['approve', 'reject']),
  comment: z.string().optional(),
  proof: z.enum(['admin_token', 'user_token', 'passkey']),
  at: z.number(),
})

/** The rule in force when the call arrived: a new policy does not change an open escalation. */
const ruleSchema = z.strictObject({
  strategy: z.enum(['auto_allow', 'single_approver', 'human_quorum']),
  timeoutAction: z.enum(['auto_approve', 'auto_reject']),
  ttlMs: z.number(),
  minApprovals: z.number(),
  minRejections: z.number(),
  requiredRoles: z.array(z.string()).readonly(),
  vetoRoles: z.array(z.string()).readonly(),
  approvalSetId: z.string().optional(),
  requiresPasskey: z.literal(true).optional(),
  remindAfterMs: z.number().optional(),
  secondSet: z.strictObject({ afterMs: z.number(), setId: z.string() }).optional(),
  emergency: z.strictObject({ roles: z.array(z.string()).readonly(), maxOpenReviews: z.number() }).optional(),
})

const escalationSchema = z.strictObject({
  id: z.string(),
  fingerprint: z.string(),
  tenant: z.string(),
  server: z.string(),
  tool: z.string(),
  reference: z.string(),
  args: z.string().optional(),
  values: z
    .array(z.strictObject({ name: z.string(), value: z.string() }))
    .readonly()
    .optional(),
  inputSha256: z.string(),
  /** The hash of the whole input, if `args` is truncated; redacted like `args`. */
  wholeSha256: z.string().optional(),
  principal: z.string(),
  principalKind: z.enum(['user', 'client']).exactOptional(),
  agent: z.string().optional(),
  /** Hash of the caller as a person; the pending escalations of each are counted. */
  personKey: z.string(),
  /** Hashes of the caller's names, like a vote's `person`. */
  caller: z.array(z.string()).readonly(),
  /** The reasons why the call escalated; an approval covers only these. */
  reasons: z.array(z.string()).min(1).readonly(),
  /** The findings that an approval covers, if there is more to them than the reasons: each with the hash of its rule. */
  covers: z.array(z.string()).readonly().optional(),
  detail: z.string().optional(),
  opening: z
    .strictObject({
      stage: z.string(),
      policySha256: z.string().exactOptional(),
      agentReason: z.string().exactOptional(),
      severityReason: z.string().exactOptional(),
    })
    .optional(),
  severity: z.enum(['low', 'medium', 'high']),
  rule: ruleSchema,
  status: z.enum(['pending', 'approved', 'rejected']),
  /** The last step while it was pending. */
  step: z.enum(['reminded', 'second_set']).optional(),
  decidedBy: z.enum(['votes', 'expiry', 'strategy', 'emergency']).optional(),
  /** Set if the call ran before it was approved; the votes are on its review. */
  emergency: z
    .strictObject({
      reason: z.string(),
      review: z.enum(['open', 'confirmed', 'objected']),
      doneAt: z.number().optional(),
      /** When reviewers were last reminded of an open review. */
      remindedAt: z.number().optional(),
    })
    .optional(),
  /** Set if it is the registration of a passkey, which others confirm. */
  enrolment: z
    .strictObject({
      reviewer: z.string(),
      credentialId: z.string(),
      publicKey: z.string(),
      revokedAt: z.number().optional(),
    })
    .optional(),
  votes: z.array(voteSchema).readonly(),
  /** The call that used the approval: its hold, and its idempotency key (hashed). */
  use: z.strictObject({ by: z.string(), key: z.string().nullable(), at: z.number().optional() }).optional(),
  traceId: z.string(),
  spanId: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
  decidedAt: z.number().optional(),
})

export type StoredEscalation = z.infer<typeof escalationSchema>
type StoredRule = z.infer<typeof ruleSchema>
export type StoredVote = z.infer<typeof voteSchema>

export interface VersionedEscalation {
  readonly value: StoredEscalation
  readonly version: number
}

export function toEntry({ value, version }: VersionedEscalation): EscalationEntry {
  const { id, fingerprint, createdAt } = value
  return {
    id,
    fingerprint,
    // Emergency calls have a limit of their own.
    principal: value.emergency === undefined ? value.personKey : `review of ${value.personKey}`,
    isPending: awaitsVotes(value),
    createdAt,
    ...timesOf(value),
    version,
    body: JSON.stringify(value),
  }
}

/** Whether people have to vote: on the call, or on the review of an emergency call. */
export function awaitsVotes({ status, emergency }: StoredEscalation): boolean {
  return status === 'pending' || emergency?.review === 'open'
}

function timesOf(value: StoredEscalation): Pick<EscalationEntry, 'wakeAt' | 'dueAt' | 'forgetAt'> {
  const { expiresAt, decidedBy, emergency, enrolment, status } = value
  if (emergency?.review === 'open') {
    return { wakeAt: reviewDueAt(value), dueAt: NEVER, forgetAt: NEVER }
  }
  if (enrolment !== undefined && status === 'approved') {
    const { revokedAt } = enrolment
    const forgetAt = revokedAt === undefined ? NEVER : revokedAt + RETENTION_MS
    return { wakeAt: NEVER, dueAt: NEVER, forgetAt }
  }
  const end = Math.max(expiresAt, emergency?.doneAt ?? 0)
  return {
    wakeAt: Math.min(expiresAt, ...openSteps(value).map(({ at }) => at)),
    dueAt: expiresAt,
    forgetAt: decidedBy === 'strategy' ? expiresAt : end + RETENTION_MS,
  }
}

function reviewDueAt({ createdAt, emergency }: StoredEscalation): number {
  return (emergency?.remindedAt ?? createdAt) + REVIEW_REMINDER_MS
}

/** @throws {Error} when the body cannot be read */
export function fromEntry({ id, version, body }: EscalationEntry): VersionedEscalation {
  try {
    return { value: escalationSchema.parse(JSON.parse(body)), version }
  } catch (cause) {
    throw new Error(`the escalation ${id} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

type Decision = 'approved' | 'rejected'

/** The decision of the votes; undefined while there is none. A veto is checked first: no approval outweighs it. */
function tally(rule: StoredRule, votes: readonly StoredVote[]): Decision | undefined {
  const [first] = votes
  if (rule.strategy === 'single_approver') {
    return first === undefined ? undefined : first.vote === 'approve' ? 'approved' : 'rejected'
  }
  const approvals = votes.filter(({ vote }) => vote === 'approve')
  const rejections = votes.filter(({ vote }) => vote === 'reject')
  const hasVeto = rejections.some(({ roles }) => rule.vetoRoles.some((role) => roles.includes(role)))
  if (hasVeto || rejections.length >= rule.minRejections) return 'rejected'
  const isRoleThere = (role: string) => approvals.some(({ roles }) => roles.includes(role))
  if (approvals.length >= rule.minApprovals && rule.requiredRoles.every(isRoleThere)) return 'approved'
  return undefined
}

/** The escalation with one more vote. @throws {VoteError} `DECIDED` or `ALREADY_VOTED` */
export function withVote(value: StoredEscalation, vote: StoredVote): StoredEscalation {
  const { emergency } = value
  if (!awaitsVotes(value))
    throw new VoteError('DECIDED', `It is ${emergency?.review ?? value.status} already.`)
  if (value.votes.some(({ person }) => person.some((name) => vote.person.includes(name)))) {
    throw new VoteError('ALREADY_VOTED', 'Each person has one vote, and yours is cast.')
  }
  const votes = [...value.votes, vote]
  const decision = tally(value.rule, votes)
  if (decision === undefined) return { ...value, votes }
  if (emergency !== undefined) {
    const review = decision === 'approved' ? 'confirmed' : 'objected'
    return { ...value, votes, emergency: { ...emergency, review, doneAt: vote.at } }
  }
  return { ...decided(value, decision, vote.at), votes, decidedBy: 'votes' }
}

/** The steps that a pending escalation has not taken, in their order. A clock that is set back repeats none. */
function openSteps({ step, rule, createdAt }: StoredEscalation) {
  const { remindAfterMs, secondSet } = rule
  const steps = [
    { name: 'reminded' as const, after: remindAfterMs },
    { name: 'second_set' as const, after: secondSet?.afterMs },
  ]
  const taken = steps.findIndex(({ name }) => name === step)
  return steps.slice(taken + 1).flatMap(({ name, after }) => {
    return after === undefined ? [] : [{ name, at: createdAt + after }]
  })
}

/**
 * The escalation at `now`: decided by its `timeoutAction` if it is still pending after its time, else with its last
 * step that is due. A step whose successor is due too is left out.
 */
export function advancedTo(value: StoredEscalation, now: number): StoredEscalation {
  const { emergency } = value
  if (emergency?.review === 'open' && now >= reviewDueAt(value)) {
    return { ...value, emergency: { ...emergency, remindedAt: now } }
  }
  if (value.status !== 'pending') return value
  if (now < value.expiresAt) {
    const step = openSteps(value).findLast(({ at }) => at <= now)?.name
    return step === undefined ? value : { ...value, step }
  }
  const decision = value.rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
  // Decided as of its expiry, whenever that is noticed, so that every gateway computes the same.
  return { ...decided(value, decision, value.expiresAt), decidedBy: 'expiry' }
}

/** A decision is valid for another `ttlMs`: then an approval lapses, and a rejected call may ask again. */
export function decided(value: StoredEscalation, status: Decision, at: number): StoredEscalation {
  return { ...value, status, decidedAt: at, expiresAt: at + value.rule.ttlMs }
}

/** The statement whose hash reviewers sign to confirm a passkey; as canonical JSON it is the input of the escalation. */
export function statementOf(
  { reviewer, credentialId, publicKey }: NonNullable<StoredEscalation['enrolment']>,
  approvalSetId: string | undefined,
) {
  return {
    ...defined({ approval_set_id: approvalSetId }),
    credential_id: credentialId,
    public_key: publicKey,
    reviewer,
  }
}

/** The members of a vote's record that prove it. */
export type ProvenVote = Readonly<Record<string, string | string[]>>
