// Whether the votes of a log are by the people who have to cast them. The holder of the log's key can leave out the proof of a
// vote, or put in one of a passkey of their own; that shows to a reader who knows the passkeys.

import { canonicalize, isJsonObject, sha256Hex } from '@svc/core/json'
import { ADMIN, claimedProof, isVote } from '../../format/recorded-vote.js'
import type { Findings } from './report.js'

/** A passkey, as `admin.passkeys` of a policy lists it. */
export interface ReviewerPasskey {
  /** User or subject; absent: the holder of the admin token. */
  readonly user?: string | undefined
  /** DER SubjectPublicKeyInfo in base64. Absent: votes of this person need no passkey. */
  readonly public_key?: string | undefined
}

/** The members of an approval set, as `admin.approval_sets` of a policy has them. */
interface ApprovalSetMembers {
  readonly users?: readonly string[] | undefined
  readonly reviewer_roles?: readonly string[] | undefined
}

/** Who may vote, as a policy says it; what is absent is not judged. */
export interface VoterRules {
  readonly approvalSets?: Readonly<Record<string, ApprovalSetMembers>> | undefined
  /** `admin.roles.reviewer`: whose votes count where no set is named. */
  readonly reviewerRoles?: readonly string[] | undefined
  /** `approval_set_id` of `human_escalation`: each escalation names a set then. */
  readonly defaultSet?: string | undefined
}

type Json = Readonly<Record<string, unknown>>

/** A passkey that a reviewer registered, and others confirm. */
interface Enrolment {
  readonly reviewer: string
  readonly publicKey: string
  /** The hash of the statement that the confirming reviewers sign. */
  readonly inputSha256: string
  counts: boolean
}

interface Approvals {
  /** Names of those who approved, with a proof. */
  readonly by: Set<string>
  /** Whether the log has its beginning, so that no vote was removed with it. */
  isWhole: boolean
  /** The approval set of the opening; null for the reviewers of the tenant, undefined if it does not state which. */
  firstSet: string | null | undefined
  /** The approval set that was asked later: its members vote too. */
  secondSet: string | undefined
}

const DECIDE = 'escalations/decide@1'
const REVIEW = 'escalations/review@1'
const OPEN = 'escalations/open@1'
const SECOND_SET = 'escalations/second-set@1'
const REVOKE = 'escalations/revoke@1'

/** The records that `VoteCheck` takes. */
export function isOfVotes(record: Json): boolean {
  return isVote(record) || [DECIDE, REVIEW, OPEN, SECOND_SET, REVOKE].some((tool) => record['tool'] === tool)
}

export class VoteCheck {
  readonly #passkeys: readonly ReviewerPasskey[]
  readonly #voters: VoterRules
  readonly #hasRemovals: boolean
  readonly #findings: Findings
  readonly #enrolments = new Map<string, Enrolment>()
  readonly #approvals = new Map<string, Approvals>()
  /** Votes that a passkey of their reviewer proves. */
  proven = 0
  /** Votes of which the log does not state by which rule of the policy they are cast. */
  unjudged = 0

  /** @param hasRemovals whether retention may have removed the beginning of an escalation. */
  constructor(
    {
      passkeys,
      voters = {},
    }: { readonly passkeys: readonly ReviewerPasskey[]; readonly voters?: VoterRules | undefined },
    hasRemovals: boolean,
    findings: Findings,
  ) {
    this.#passkeys = passkeys
    this.#voters = voters
    this.#hasRemovals = hasRemovals
    this.#findings = findings
  }

  /** A valid record, in the order of the log, whose proof was checked by itself. */
  take(file: string, line: number, record: Json): void {
    const id = String(record['escalation_id'])
    const { tool } = record
    if (tool === OPEN) this.#open(id, record)
    if (tool === SECOND_SET) this.#of(id).secondSet ??= setOf(record['event']) ?? undefined
    if (tool === REVOKE) this.#enrolments.delete(id)
    const decides = tool === DECIDE || tool === REVIEW
    const message = isVote(record) ? this.#vote(id, record) : decides ? this.#decide(id, record) : undefined
    if (message !== undefined) this.#findings.fail(file, line, 'bad_vote', message)
  }

  #open(id: string, { event }: Json): void {
    const escalation = this.#of(id)
    escalation.isWhole = true
    const enrolment = isJsonObject(event) ? event['enrolment'] : undefined
    // The statement of an enrolment is what its votes sign, and it has no member if there is no set.
    const stated = isJsonObject(enrolment) ? (setOf(enrolment) ?? null) : setOf(event)
    if (escalation.firstSet === undefined) escalation.firstSet = stated
    if (!isJsonObject(enrolment)) return
    const { reviewer, public_key: publicKey } = enrolment
    if (typeof reviewer !== 'string' || typeof publicKey !== 'string') return
    const inputSha256 = sha256Hex(canonicalize(enrolment))
    this.#enrolments.set(id, { reviewer, publicKey, inputSha256, counts: false })
  }

  #vote(id: string, record: Json): string | undefined {
    const { event } = record
    const { proof, reviewer, vote } = isJsonObject(event) ? event : {}
    const claimed = claimedProof(record)
    // It did not count, and the record before it has the proof.
    if (proof === 'late' && (claimed === undefined || !('error' in claimed))) return undefined
    const name = String(reviewer)
    if (claimed === undefined || 'error' in claimed) {
      const needsNone = this.#passkeys.some((one) => one.public_key === undefined && isOf(one, name, record))
      return needsNone
        ? this.#voterError(id, name, record)
        : `no passkey proves the vote of ${JSON.stringify(name)}`
    }
    const key = claimed.assertion.public_key
    const isListed = this.#passkeys.some((one) => one.public_key === key && isOf(one, name, record))
    const isEnrolled = [...this.#enrolments.values()].some(
      (one) => one.counts && one.publicKey === key && one.reviewer === name,
    )
    if (!isListed && !isEnrolled) return `its passkey is not one of ${JSON.stringify(name)}`
    const refused = this.#voterError(id, name, record)
    if (refused !== undefined) return refused
    this.proven++
    const enrolment = this.#enrolments.get(id)
    const isOwn = enrolment?.reviewer === name
    const isOfIt = enrolment === undefined || enrolment.inputSha256 === claimed.vote.input_sha256
    if (vote === 'approve' && isOfIt && !isOwn) this.#of(id).by.add(name)
    return undefined
  }

  /** Why the policy gives the reviewer no vote on the escalation; undefined if it does, or if that cannot be known. */
  #voterError(id: string, name: string, record: Json): string | undefined {
    const { approvalSets, reviewerRoles, defaultSet } = this.#voters
    if (approvalSets === undefined && reviewerRoles === undefined && defaultSet === undefined)
      return undefined
    const { firstSet, secondSet, isWhole } = this.#of(id)
    if (!isWhole || firstSet === undefined) {
      this.unjudged++
      return undefined
    }
    if (firstSet === null && defaultSet !== undefined)
      return `its escalation names no approval set, and the policy has ${JSON.stringify(defaultSet)}`
    const { principal } = record
    const roles = isJsonObject(principal) && Array.isArray(principal['roles']) ? principal['roles'] : []
    const hasOne = (wanted: readonly string[]) => wanted.some((role) => roles.includes(role))
    const isReviewer = name === ADMIN || reviewerRoles === undefined || hasOne(reviewerRoles)
    if (firstSet === null && isReviewer) return undefined
    const sets = [firstSet, secondSet].filter((setId) => typeof setId === 'string')
    const isMember = sets.some((setId) => {
      const { users = [], reviewer_roles: wanted = [] } = approvalSets?.[setId] ?? {}
      return hasOne(wanted) || users.some((user) => isOf({ user }, name, record))
    })
    if (isMember || (sets.length > 0 && approvalSets === undefined)) return undefined
    const why = firstSet === null ? ['has no role of a reviewer'] : []
    if (sets.length > 0)
      why.push(`is not in the approval set ${sets.map((setId) => JSON.stringify(setId)).join(' or ')}`)
    return `${JSON.stringify(name)} ${why.join(', and ')}`
  }

  /** The names of those who approved are counted, not trusted to be enough: how many a rule needs is in the policy. */
  #decide(id: string, { policy, findings }: Json): string | undefined {
    if (!isJsonObject(policy) || policy['decision'] !== 'allow') return undefined
    const { by, isWhole } = this.#of(id)
    const enrolment = this.#enrolments.get(id)
    if (enrolment !== undefined && by.size > 0) enrolment.counts = true
    const [first] = Array.isArray(findings) ? findings : []
    const detail = isJsonObject(first) ? String(first['detail']) : ''
    const stated = Number(/^(?:approved|confirmed): (\d{1,9}) to approve/.exec(detail)?.[1] ?? 0)
    const needsNone = this.#passkeys.some((one) => one.public_key === undefined)
    if ((this.#hasRemovals && !isWhole) || needsNone || by.size >= stated) return undefined
    return `it states ${stated} votes to approve, the log has ${by.size} that passkeys prove`
  }

  #of(id: string): Approvals {
    const none = { by: new Set<string>(), isWhole: false, firstSet: undefined, secondSet: undefined }
    const known = this.#approvals.get(id) ?? none
    this.#approvals.set(id, known)
    return known
  }
}

/** The approval set that a record states; null for none, undefined if it leaves the member out. */
function setOf(stated: unknown): string | null | undefined {
  const setId = isJsonObject(stated) ? stated['approval_set_id'] : undefined
  return setId === undefined || typeof setId === 'string' ? setId : null
}

/** Whether the passkey is one of the reviewer that the vote names. */
function isOf({ user }: ReviewerPasskey, name: string, { principal }: Json): boolean {
  if (user === undefined) return name === ADMIN
  const id = isJsonObject(principal) ? principal['user_id'] : undefined
  return name.startsWith(`${user} of `) || user === id
}
