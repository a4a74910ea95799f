// Whether the votes of a log are by the people who have to cast them. The holder of the log's key can leave out the proof of a
// vote, or put in one of a passkey of their own; that shows to a reader who knows the passkeys.

import { canonicalize, isJsonObject, sha256Hex } from '@svc/core/json'
import { claimedProof, isVote } from '../../browser/recorded-vote.js'
import type { Findings } from './findings.js'

/** A passkey, as `admin.passkeys` of a policy lists it. */
export interface ReviewerPasskey {
  /** User or subject; absent: the holder of the admin token. */
  readonly user?: string | undefined
  /** DER SubjectPublicKeyInfo in base64. Absent: votes of this person need no passkey. */
  readonly public_key?: string | undefined
}

type Json = Readonly<Record<string, unknown>>

/** A passkey that a reviewer registered, and others confirm. */
interface Enrolment {
  readonly reviewer: string
  readonly publicKey: string
  /** What those who confirm it sign. */
  readonly inputSha256: string
  counts: boolean
}

interface Approvals {
  /** Names of those who approved, with a proof. */
  readonly by: Set<string>
  /** Whether the log has its beginning, so that no vote was removed with it. */
  isWhole: boolean
}

const DECIDE = 'escalations/decide@1'
const REVIEW = 'escalations/review@1'
const OPEN = 'escalations/open@1'
const REVOKE = 'escalations/revoke@1'

/** The records that `VoteCheck` takes. */
export function isOfVotes(record: Json): boolean {
  return isVote(record) || [DECIDE, REVIEW, OPEN, REVOKE].some((tool) => record['tool'] === tool)
}

export class VoteCheck {
  readonly #passkeys: readonly ReviewerPasskey[]
  readonly #hasRemovals: boolean
  readonly #findings: Findings
  readonly #enrolments = new Map<string, Enrolment>()
  readonly #approvals = new Map<string, Approvals>()
  #proven = 0

  /** @param hasRemovals whether retention may have removed the beginning of an escalation. */
  constructor(passkeys: readonly ReviewerPasskey[], hasRemovals: boolean, findings: Findings) {
    this.#passkeys = passkeys
    this.#hasRemovals = hasRemovals
    this.#findings = findings
  }

  /** Votes that a passkey of their reviewer proves. */
  get proven(): number {
    return this.#proven
  }

  /** A valid record, in the order of the log, whose proof was checked by itself. */
  take(file: string, line: number, record: Json): void {
    const id = String(record['escalation_id'])
    const { tool } = record
    if (tool === OPEN) this.#open(id, record)
    if (tool === REVOKE) this.#enrolments.delete(id)
    const decides = tool === DECIDE || tool === REVIEW
    const message = isVote(record) ? this.#vote(id, record) : decides ? this.#decide(id, record) : undefined
    if (message !== undefined) this.#findings.fail(file, line, 'bad_vote', message)
  }

  #open(id: string, { event }: Json): void {
    this.#of(id).isWhole = true
    const enrolment = isJsonObject(event) ? event['enrolment'] : undefined
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
      return needsNone ? undefined : `no passkey proves the vote of ${JSON.stringify(name)}`
    }
    const key = claimed.assertion.public_key
    const isListed = this.#passkeys.some((one) => one.public_key === key && isOf(one, name, record))
    const isEnrolled = [...this.#enrolments.values()].some(
      (one) => one.counts && one.publicKey === key && one.reviewer === name,
    )
    if (!isListed && !isEnrolled) return `its passkey is not one of ${JSON.stringify(name)}`
    this.#proven++
    const enrolment = this.#enrolments.get(id)
    const isOwn = enrolment?.reviewer === name
    const isOfIt = enrolment === undefined || enrolment.inputSha256 === claimed.vote.input_sha256
    if (vote === 'approve' && isOfIt && !isOwn) this.#of(id).by.add(name)
    return undefined
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
    const known = this.#approvals.get(id) ?? { by: new Set<string>(), isWhole: false }
    this.#approvals.set(id, known)
    return known
  }
}

/** Whether the passkey is one of the reviewer that the vote names. */
function isOf({ user }: ReviewerPasskey, name: string, { principal }: Json): boolean {
  if (user === undefined) return name === 'the admin token'
  const id = isJsonObject(principal) ? principal['user_id'] : undefined
  return name.startsWith(`${user} of `) || user === id
}
