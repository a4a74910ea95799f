// Escalations: calls that wait for approval. Shared by the gateway, its admin listener and the stage
// that escalates.
import { brand, hasBrand } from './contract.js'
import { type Identity, isPerson } from './principal.js'

export type EscalationStatus = 'pending' | 'approved' | 'rejected'

/** Whether the votes on an emergency call confirm it or object to it. */
export type ReviewStatus = 'open' | 'confirmed' | 'objected'

type ApprovalStrategy = 'auto_allow' | 'single_approver' | 'human_quorum'

/** The rule by which calls escalate. */
export interface EscalationRule {
  readonly strategy: ApprovalStrategy
  /** The decision at the timeout. */
  readonly timeoutAction: 'auto_approve' | 'auto_reject'
  /** Milliseconds for which an escalation waits for a decision, and then an approval for its call. */
  readonly ttlMs: number
  readonly minApprovals: number
  readonly minRejections: number
  /** The approvals must include each of these roles. */
  readonly requiredRoles: readonly string[]
  /** A rejection by a reviewer with one of these roles is final. */
  readonly vetoRoles: readonly string[]
  /** The set of reviewers, in place of the reviewers of the call's tenant. */
  readonly approvalSetId?: string
  /** Whether reviewers see the call's arguments. */
  readonly showsArguments: boolean
  /** Default: `high` for a side-effecting call, else `medium`. */
  readonly severity?: EscalationSeverity
  /** Milliseconds after which reviewers are reminded. */
  readonly remindAfterMs?: number
  /** Reviewers who may vote too after a time. */
  readonly secondSet?: { readonly afterMs: number; readonly setId: string }
  /** Users with one of these roles may run a call before it is approved; absent: nobody. */
  readonly emergency?: {
    readonly roles: readonly string[]
    /** Emergency calls of one person whose review may be open. */
    readonly maxOpenReviews: number
  }
  /** Every vote is signed by a passkey of the reviewer. */
  readonly requiresPasskey?: true
  /** Only what a stage rules to escalate does: `escalate_on` and a runtime's decision have no effect. */
  readonly isForRulingsAlone?: true
}

export const defaultEscalation = {
  strategy: 'human_quorum',
  timeoutAction: 'auto_reject',
  ttlMs: 900_000,
  minApprovals: 1,
  minRejections: 1,
  requiredRoles: [],
  vetoRoles: [],
  showsArguments: true,
} as const satisfies EscalationRule

/** The reason of the finding that a call ran before it was approved. */
export const emergencyReason = 'emergency'

/** Whether the caller may run a call before it is approved: only a person whose roles the issuer states. */
export function mayRunInEmergency(
  { authenticated, user, roles }: Pick<Identity, 'authenticated' | 'roles'> & { user?: string | undefined },
  rule: EscalationRule | undefined,
): boolean {
  const allowed = rule?.emergency?.roles ?? []
  return isPerson({ authenticated, user }) && roles.some((role) => allowed.includes(role))
}

/** A set of reviewers, of any tenant. */
export interface ApprovalSet {
  /** Users or subjects. */
  readonly users?: readonly string[]
  /** Roles whose users are members. */
  readonly roles?: readonly string[]
}

/** Whether the caller is in the set, by a name or by a role. */
export function isMemberOf(
  { users = [], roles = [] }: ApprovalSet,
  { user, userId, roles: own }: Identity,
): boolean {
  return users.some((name) => name === user || name === userId) || roles.some((role) => own.includes(role))
}

/** Who may vote, from `admin`. */
export interface Reviewers {
  /** `admin.roles.reviewer`; absent: no user may vote. */
  readonly roles?: readonly string[]
  readonly approvalSets: Readonly<Record<string, ApprovalSet>>
  readonly passkeys?: readonly Passkey[]
}

/** A reviewer's credential (W3C Web Authentication). */
export interface Passkey {
  /** The user or subject whose it is; absent: that of the holder of the admin token. */
  readonly user?: string
  /** The credential's id, base64url. */
  readonly id: string
  /** DER SubjectPublicKeyInfo in base64. */
  readonly publicKey: string
}

/** The challenge that a reviewer's passkey signs. */
export interface VoteChallenge {
  /** Base64url of the SHA-256 of the canonical vote. */
  readonly challenge: string
  readonly nonce: string
  /** The relying party: the host of the console. */
  readonly rpId: string
  /** The ids of the reviewer's credentials. */
  readonly credentials: readonly string[]
  /** The challenges of the single votes, if one signature is for several. */
  readonly batch?: readonly string[]
}

/** The challenge with which an authenticator registers a passkey. */
export interface EnrolmentChallenge extends Omit<VoteChallenge, 'batch'> {
  /** The person, as the authenticator lists them. */
  readonly user: { readonly id: string; readonly name: string }
  /** COSE identifiers. */
  readonly algorithms: readonly number[]
}

/** The response of an authenticator that has registered a passkey; binary members are base64url. */
export interface PasskeyRegistration {
  readonly nonce: string
  readonly credentialId: string
  readonly clientDataJson: string
  readonly attestationObject: string
}

/** A passkey that a reviewer registered. It counts from the approval of its escalation until it is revoked. */
export interface Enrolment {
  /** The name of the reviewer in votes. */
  readonly reviewer: string
  readonly credentialId: string
  /** DER SubjectPublicKeyInfo in base64. */
  readonly publicKey: string
  /** The code that its owner reads to those who confirm it: the first digits of the hash of the above. */
  readonly code: string
  /** Milliseconds since the epoch. */
  readonly revokedAt?: number
}

/** Passkeys that reviewers register, and others of those who vote with them confirm. */
export interface EnrolmentService {
  /**
   * The challenge for the reviewer's authenticator. `setId` is the approval set of which they are a member; undefined for that
   * of the policy's rule, or else reviewers of their tenant.
   *
   * @throws {VoteError} if the reviewer has no vote there
   */
  challenge(reviewer: Reviewer, setId: string | undefined): Promise<EnrolmentChallenge>
  /** Opens the escalation by which others confirm the passkey. @throws {VoteError} */
  enrol(reviewer: Reviewer, setId: string | undefined, given: PasskeyRegistration): Promise<Escalation>
  /** Ends the passkey of an escalation, which is the reviewer's own unless `ofOthers`. @throws {VoteError} */
  revoke(id: string, reviewer: Reviewer, ofOthers: boolean): Promise<Escalation>
}

/** The signature of a passkey; binary members are base64url. */
export interface PasskeySignature {
  readonly nonce: string
  readonly credentialId: string
  readonly authenticatorData: string
  readonly clientDataJson: string
  readonly signature: string
  /** The challenges of the batch, as in the request. */
  readonly batch?: readonly string[]
}

type EscalationSeverity = 'low' | 'medium' | 'high'

/** The means by which the reviewer proved to have cast the vote. */
export type VoteProof = 'admin_token' | 'user_token' | 'passkey'

interface EscalationVote {
  /** The reviewer: the admin token, or a user of a tenant. */
  readonly reviewer: string
  readonly roles: readonly string[]
  readonly vote: 'approve' | 'reject'
  readonly comment?: string
  readonly proof: VoteProof
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A call that needs, or needed, an approval. */
export interface Escalation {
  readonly id: string
  /** SHA-256, hex, over tenant, server, tool, canonical arguments and principal. */
  readonly fingerprint: string
  readonly tenant: string
  readonly server: string
  readonly tool: string
  /** `mcp://<server>/<tool>@<version>`. */
  readonly reference: string
  /** The caller as shown to reviewers; redacted if the policy configures it. */
  readonly principal: string
  /** Absent if the caller is not known. */
  readonly principalKind?: 'user' | 'client'
  /** The agent, as the caller names it; redacted like `principal`. */
  readonly agent?: string
  /** The finding's reason token, or the remote runtime's. */
  readonly reason: string
  /** Why it escalated, for reviewers. */
  readonly detail?: string
  readonly opening?: {
    readonly stage: string
    readonly policySha256?: string
    /** Stated by the agent, and redacted like `principal`. */
    readonly agentReason?: string
    readonly severityReason?: string
  }
  /** The call's input in canonical JSON, for reviewers: truncated, and redacted like `principal`. */
  readonly args?: string
  /** Short values of the input: first those that the rules read which escalated the call. */
  readonly values?: readonly { readonly name: string; readonly value: string }[]
  /** Whether `args` is not the whole input: a vote to approve must then have the hash of the whole. */
  readonly isTruncated?: boolean
  readonly severity: EscalationSeverity
  readonly strategy: ApprovalStrategy
  /** The votes that decide it, under the strategy `human_quorum`. */
  readonly quorum?: Pick<EscalationRule, 'minApprovals' | 'minRejections' | 'requiredRoles' | 'vetoRoles'>
  readonly timeoutAction: EscalationRule['timeoutAction']
  readonly approvalSetId?: string
  /** Whether each vote needs a passkey. */
  readonly requiresPasskey?: true
  /** The set that may vote too, once its time has come. */
  readonly secondSetId?: string
  readonly status: EscalationStatus
  /** Whether votes, the timeout, the strategy, or the caller in an emergency decided it. */
  readonly decidedBy?: 'votes' | 'expiry' | 'strategy' | 'emergency'
  /** Set if the call ran before it was approved: the caller's reason, and what reviewers have said since. */
  readonly emergency?: { readonly reason: string; readonly review: ReviewStatus }
  /** The passkey that is to be confirmed, in place of a call. */
  readonly enrolment?: Enrolment
  readonly votes: readonly EscalationVote[]
  /** Whether the approval was used by its call. */
  readonly isUsed: boolean
  /** When it was used, in milliseconds since the epoch. */
  readonly usedAt?: number
  /** The trace of the call that opened it. */
  readonly traceId: string
  /** This and the next two are in milliseconds since the epoch. */
  readonly createdAt: number
  /** The timeout; once decided, the end of the approval or of the rejection. */
  readonly expiresAt: number
  readonly decidedAt?: number
}

/** All that a reviewer may see of a call's input. */
export interface EscalationInput {
  /** Canonical JSON, redacted like `principal`. */
  readonly text: string
  /** SHA-256, hex, of the text. If nothing is redacted it is the `input_sha256` of the records. */
  readonly sha256: string
}

/** A vote as a reviewer sends it. */
export interface GivenVote {
  readonly vote: 'approve' | 'reject'
  readonly comment?: string
  /** `sha256` of the input that the reviewer has read. */
  readonly inputSha256?: string
  readonly passkey?: PasskeySignature
}

/** The name of the reviewer that votes with the admin token. */
export const adminReviewer = 'the admin token'

/** A reviewer. The admin token counts as one reviewer without roles or tenant. */
export type Reviewer = { readonly kind: 'admin' } | { readonly kind: 'user'; readonly identity: Identity }

/** The relation of a client to an escalation. */
export interface EscalationStanding {
  readonly isCaller: boolean
  /** Why they may not vote; absent if they may. */
  readonly voteRefusal?: string
}

export type VoteErrorCode =
  | 'NOT_FOUND'
  /** The escalation is already decided. */
  | 'DECIDED'
  /** Each reviewer has one vote. */
  | 'ALREADY_VOTED'
  /** The passkey is registered, or the reviewer has too many. */
  | 'ALREADY_REGISTERED'
  /** The voter is the caller, of another tenant, not in the approval set, or without a reviewer role. */
  | 'NOT_A_REVIEWER'
  /** The rule requires a passkey, and the vote has no valid signature of one of the reviewer's. */
  | 'PASSKEY_REQUIRED'
  /** `inputSha256` is not the hash of the input, or is missing although the preview is truncated. */
  | 'INPUT_NOT_SEEN'

export class VoteError extends Error {
  readonly [brand] = 'VoteError'
  override readonly name = 'VoteError'
  constructor(
    readonly code: VoteErrorCode,
    message: string,
  ) {
    super(message)
  }
}

/** Whether `value` is a `VoteError`, of any copy of this package. */
export function isVoteError(value: unknown): value is VoteError {
  return hasBrand(value, 'VoteError')
}
