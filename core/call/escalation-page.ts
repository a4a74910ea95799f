// Lists of escalations: which of them, and for whom.
import type {
  EnrolmentService,
  Escalation,
  EscalationInput,
  EscalationStanding,
  EscalationStatus,
  GivenVote,
  Reviewer,
  ReviewStatus,
  VoteChallenge,
} from './escalation.js'

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
  /** Only those on which people have to vote: pending ones, and emergency calls whose review is open. */
  readonly isUndecided?: true
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
