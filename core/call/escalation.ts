// Sections state the rule of escalations and the people who may vote.
import type { Identity } from './principal.js'

export type EscalationStatus = 'pending' | 'approved' | 'rejected'

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

/** A set of reviewers, of any tenant. */
export interface ApprovalSet {
  /** Users or subjects. */
  readonly users?: readonly string[]
  /** Roles whose users are members. */
  readonly roles?: readonly string[]
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

type EscalationSeverity = 'low' | 'medium' | 'high'

/** A reviewer. The admin token counts as one reviewer without roles or tenant. */
export type Reviewer = { readonly kind: 'admin' } | { readonly kind: 'user'; readonly identity: Identity }
