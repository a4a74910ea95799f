// Escalations, calls that wait for approval, as the gateway and its admin listener use them.
import {
  type ApprovalSet,
  brand,
  type EscalationRule,
  type EscalationStatus,
  hasBrand,
  type Identity,
  isPerson,
  type Reviewer,
  token,
} from '@svc/core'

/** Whether the votes on an emergency call confirm it or object to it. */
export type ReviewStatus = 'open' | 'confirmed' | 'objected'

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

/** Whether the caller is in the set, by a name or by a role. */
export function isMemberOf(
  { users = [], roles = [] }: ApprovalSet,
  { user, userId, roles: own }: Identity,
): boolean {
  return users.some((name) => name === user || name === userId) || roles.some((role) => own.includes(role))
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
  readonly severity: NonNullable<EscalationRule['severity']>
  readonly strategy: EscalationRule['strategy']
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

/** A person is a voter by the tenant whose reviewer they are, and by the approval sets that they are in. */
export interface VoterGroups {
  readonly tenant: string | undefined
  readonly sets: readonly string[]
}

/** Whether these vote on the escalation, if it is not their own call: a set takes the place of the tenant's reviewers. */
export function isVotedOnBy(
  groups: VoterGroups,
  { tenant, approvalSetId, secondSetId }: Pick<Escalation, 'tenant' | 'approvalSetId' | 'secondSetId'>,
): boolean {
  if (secondSetId !== undefined && groups.sets.includes(secondSetId)) return true
  return approvalSetId === undefined ? groups.tenant === tenant : groups.sets.includes(approvalSetId)
}

export interface EscalationFilter {
  readonly status?: EscalationStatus
  readonly review?: ReviewStatus
  /**
   * True: only those on which people have to vote, which are pending ones, and emergency calls whose review is open. False:
   * only the others.
   */
  readonly isUndecided?: boolean
  readonly tenant?: string
  /** Only enrolments of passkeys. */
  readonly isEnrolment?: true
  /** Default: the newest. */
  readonly first?: 'newest' | 'oldest'
  readonly limit: number
  /** Only those after the one with this id. */
  readonly after?: string
  /** Milliseconds for which the list may be returned again: clients that watch share one read. Absent: it is read. */
  readonly maxAgeMs?: number
}

export interface EscalationPageFilter extends EscalationFilter {
  /** Words that it has to have, in any letter case; `readsInput`: also where the input is, or is quoted. */
  readonly search?: { readonly text: string; readonly readsInput: boolean }
  /** Only those on which these vote. */
  readonly voters?: VoterGroups
  /** Entries after which the search stops, matches or not. Those of its last millisecond are read to the end. */
  readonly maxRead: number
  /** The search of the page before stopped there. */
  readonly readUpTo?: number | undefined
}

export interface EscalationPage {
  readonly found: readonly Escalation[]
  /** Set if `maxRead` ended the search: the next goes on after this time, in milliseconds since the epoch. */
  readonly readUpTo?: number
}

/** Finds escalations, casts votes and waits for decisions. Every method rejects when the store is not available. */
export interface EscalationService {
  find(id: string): Promise<Escalation | undefined>
  /** Undefined for an input that does not exist, that the rule hides, or that was deleted after the decision. */
  input(id: string): Promise<EscalationInput | undefined>
  list(filter: EscalationFilter): Promise<readonly Escalation[]>
  /** Like `list`, with a limit on what is read. */
  page(filter: EscalationPageFilter): Promise<EscalationPage>
  /**
   * Casts a vote. Resolves to the escalation with it.
   *
   * @throws {VoteError} when the vote may not be cast
   */
  vote(id: string, reviewer: Reviewer, vote: GivenVote): Promise<Escalation>
  /** Undefined for an escalation that does not exist. */
  standing(id: string, client: Reviewer): Promise<EscalationStanding | undefined>
  /**
   * The challenge that the reviewer's passkey signs for these votes, at least one.
   *
   * @throws {VoteError} when one of the votes may not be cast
   */
  challenge(
    reviewer: Reviewer,
    votes: readonly (GivenVote & { readonly id: string })[],
  ): Promise<VoteChallenge>
  /** Loaded when it is asked for. */
  enrolments(): Promise<EnrolmentService>
  /** Resolves when the escalation is decided, or unchanged after `withinMs` or when `signal` aborts. */
  wait(id: string, withinMs: number, signal: AbortSignal): Promise<Escalation | undefined>
}

export const escalationService = token<EscalationService>('EscalationService')
