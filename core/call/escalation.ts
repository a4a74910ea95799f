// What the gateway, its admin listener and the stage that escalates agree on about a call that waits for a person
// (decisions.md §6).
import { brand, hasBrand } from './contract.js'
import type { Identity } from './slots.js'

export type EscalationStatus = 'pending' | 'approved' | 'rejected'

export type ApprovalStrategy = 'auto_allow' | 'single_approver' | 'human_quorum'

/** How calls escalate: what `security.side_effects` says once it approves high risk. */
export interface EscalationRule {
  readonly strategy: ApprovalStrategy
  /** What decides when the time runs out. */
  readonly timeoutAction: 'auto_approve' | 'auto_reject'
  /** Milliseconds: how long a case waits for a decision, and then an approval for its call. */
  readonly ttlMs: number
  readonly minApprovals: number
  readonly minRejections: number
  /** All of them among the approvals. */
  readonly requiredRoles: readonly string[]
  /** A vote to reject by one who has any of them decides. */
  readonly vetoRoles: readonly string[]
  /** Who votes, in place of the reviewers of the call's tenant. */
  readonly approvalSetId?: string
  /** Whether reviewers see the call's arguments. */
  readonly showsArguments: boolean
  /** Absent: `high` for a call that may change something, else `medium`. */
  readonly severity?: EscalationSeverity
}

/** Some people, of any tenant. */
export interface ApprovalSet {
  /** By user or subject. */
  readonly users?: readonly string[]
  readonly roles?: readonly string[]
}

/** Who may vote: what `admin` says. */
export interface Reviewers {
  /** `admin.reviewer_roles`; absent: no user may vote. */
  readonly roles?: readonly string[]
  readonly approvalSets: Readonly<Record<string, ApprovalSet>>
}

export type EscalationSeverity = 'low' | 'medium' | 'high'

export interface EscalationVote {
  /** Who voted, as one person: the admin token, or a user of a tenant. */
  readonly reviewer: string
  readonly roles: readonly string[]
  readonly vote: 'approve' | 'reject'
  readonly comment?: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** One call that waits, or waited, for a decision. */
export interface Escalation {
  readonly id: string
  /** SHA-256, hex, over tenant, server, tool, canonical arguments and principal. */
  readonly fingerprint: string
  readonly tenant: string
  readonly server: string
  readonly tool: string
  /** `mcp://<server>/<tool>@<version>`. */
  readonly reference: string
  /** Who called, as reviewers see it; redacted where the policy says so. */
  readonly principal: string
  /** The finding's reason token, or the remote runtime's. */
  readonly reason: string
  /** For people: why it escalated. */
  readonly detail?: string
  /** The call's input in canonical JSON, for people: cut where they are long, redacted like `principal`. */
  readonly args?: string
  readonly severity: EscalationSeverity
  readonly strategy: ApprovalStrategy
  readonly approvalSetId?: string
  readonly status: EscalationStatus
  /** What decided: votes, the time that ran out, or the strategy itself. */
  readonly decidedBy?: 'votes' | 'expiry' | 'strategy'
  readonly votes: readonly EscalationVote[]
  /** Whether the approval has let its call through. */
  readonly isUsed: boolean
  /** The trace of the call that opened it. */
  readonly traceId: string
  /** Milliseconds since the epoch, all three. */
  readonly createdAt: number
  /** When the time decides; once decided, when the approval lapses or the rejection no longer stands. */
  readonly expiresAt: number
  readonly decidedAt?: number
}

/** Who votes. The admin token is one person without roles, of no tenant. */
export type Reviewer = { readonly kind: 'admin' } | { readonly kind: 'user'; readonly identity: Identity }

/** Looks escalations up, takes votes and waits for decisions. Every method rejects when the store cannot be asked. */
export interface EscalationService {
  find(id: string): Promise<Escalation | undefined>
  /** Newest first; of one tenant, where given. */
  list(filter: { status?: EscalationStatus; tenant?: string; limit: number }): Promise<readonly Escalation[]>
  /**
   * Casts a vote. Resolves to the escalation with it.
   *
   * @throws {VoteError} when the vote may not be cast
   */
  vote(
    id: string,
    reviewer: Reviewer,
    vote: { vote: 'approve' | 'reject'; comment?: string },
  ): Promise<Escalation>
  /** Resolves when the escalation is decided, or unchanged after `withinMs`, or when `signal` fires. */
  wait(id: string, withinMs: number, signal: AbortSignal): Promise<Escalation | undefined>
}

export type VoteErrorCode =
  | 'NOT_FOUND'
  /** Decided already. */
  | 'DECIDED'
  /** One vote per person. */
  | 'ALREADY_VOTED'
  /** The caller itself, another tenant, not in the approval set, or without a reviewer's role. */
  | 'NOT_A_REVIEWER'

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

/** Whether `value` is a `VoteError`, of whatever copy of this package. */
export function isVoteError(value: unknown): value is VoteError {
  return hasBrand(value, 'VoteError')
}
