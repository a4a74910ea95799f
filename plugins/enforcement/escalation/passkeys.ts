// The passkeys of reviewers, from the policy or enrolled: the challenge for a vote, and the check of its signature.
import {
  type DependencyContainer,
  hostOf,
  type Passkey,
  type Reviewer,
  resolveOptional,
  services,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import {
  assertionError,
  batchChallengeOf,
  challengeOf,
  nonceError,
  nonceOf,
  relyingPartyOf,
  type SignedVote,
} from '@svc/core/passkey'
import type { EscalationRepository } from './repository.js'
import { type GivenVote, type VoteChallenge, VoteError } from './service.js'
import type { ProvenVote, StoredEscalation, StoredVote } from './stored-escalation.js'

type Key = Pick<Passkey, 'id' | 'publicKey'>

/** Enrolled passkeys of one person for the same votes. */
export const MAX_ENROLLED = 10

export class Passkeys {
  #container: DependencyContainer
  #repository: EscalationRepository

  /** The container of the policy, which lists passkeys; the repository has those that are enrolled. */
  constructor(container: DependencyContainer, repository: EscalationRepository) {
    this.#container = container
    this.#repository = repository
  }

  /** Rejects with `VoteError` `PASSKEY_REQUIRED` if the reviewer has no passkey for all, or the console has no origin. */
  async challenge(
    votes: readonly (readonly [StoredEscalation, StoredVote])[],
    reviewer: Reviewer,
  ): Promise<VoteChallenge> {
    const [first] = votes
    if (first === undefined) throw new Error('no vote is to be signed')
    const nonce = nonceOf(this.#repository.now, first[1].roles)
    const own = await this.#enrolledFor(votes, reviewer)
    const listed = this.#listedFor(reviewer)
    const usable = votes.map(([value, vote]) =>
      [...listed, ...own.flatMap((one) => keyFor(one, value, reviewer, vote) ?? [])].map(({ id }) => id),
    )
    const credentials = usable.reduce((all, own) => all.filter((id) => own.includes(id)))
    if (credentials.length === 0) throw new VoteError('PASSKEY_REQUIRED', noPasskey(reviewer))
    const challenges = votes.map(([value, vote]) => challengeOf(this.#signed(value, vote, nonce)))
    const [single = ''] = challenges
    return {
      ...(challenges.length === 1
        ? { challenge: single }
        : { challenge: batchChallengeOf(challenges), batch: challenges }),
      nonce,
      rpId: relyingPartyOf(this.origin),
      credentials,
    }
  }

  /** Rejects with `VoteError` `PASSKEY_REQUIRED` if the vote has no valid signature of a passkey of the reviewer. */
  async proven(
    value: StoredEscalation,
    reviewer: Reviewer,
    vote: StoredVote,
    given: GivenVote,
  ): Promise<ProvenVote> {
    const { passkey } = given
    if (passkey === undefined) {
      throw new VoteError(
        'PASSKEY_REQUIRED',
        'This vote needs your passkey: vote on the page of the approval.',
      )
    }
    const { nonce, credentialId, batch } = passkey
    const credential =
      this.#listedFor(reviewer).find(({ id }) => id === credentialId) ??
      (await this.#enrolledWith(credentialId, value, reviewer, vote))
    if (credential === undefined) throw new VoteError('PASSKEY_REQUIRED', noPasskey(reviewer))
    const assertion = {
      public_key: credential.publicKey,
      origin: this.origin,
      authenticator_data: passkey.authenticatorData,
      client_data_json: passkey.clientDataJson,
      signature: passkey.signature,
      ...(batch === undefined ? {} : { batch: [...batch] }),
    }
    const error =
      nonceError(nonce, vote.at, vote.roles) ??
      (await assertionError(this.#signed(value, vote, nonce), assertion))
    if (error === undefined) return { nonce, ...assertion }
    throw new VoteError('PASSKEY_REQUIRED', `The passkey does not prove the vote: ${error}.`)
  }

  #signed({ id, fingerprint, inputSha256 }: StoredEscalation, vote: StoredVote, nonce: string): SignedVote {
    return {
      escalation: id,
      fingerprint,
      input_sha256: inputSha256,
      vote: vote.vote,
      comment: vote.comment ?? null,
      reviewer: vote.reviewer,
      log_id: this.logId,
      nonce,
    }
  }

  #listedFor(reviewer: Reviewer): readonly Key[] {
    return this.listed.filter(({ user }) => isOf(user, reviewer))
  }

  /** The registrations of the reviewer for any of the votes, read at once as the store has no index of people. */
  async #enrolledFor(
    votes: readonly (readonly [StoredEscalation, StoredVote])[],
    reviewer: Reviewer,
  ): Promise<readonly StoredEscalation[]> {
    if (reviewer.kind === 'admin') return []
    return this.enrolled((one) =>
      votes.some(([value, vote]) => keyFor(one, value, reviewer, vote) !== undefined),
    )
  }

  /** The passkey with this id, if the reviewer has registered it and it counts for the vote. */
  async #enrolledWith(
    credentialId: string,
    value: StoredEscalation,
    reviewer: Reviewer,
    vote: StoredVote,
  ): Promise<Key | undefined> {
    const one = (await this.#repository.latest(passkeyFingerprintOf(credentialId)))?.value
    const key = one !== undefined && counts(one) ? keyFor(one, value, reviewer, vote) : undefined
    return key?.id === credentialId ? key : undefined
  }

  /** The registrations that count and match, the newest first. */
  enrolled(matches: (value: StoredEscalation) => boolean): Promise<readonly StoredEscalation[]> {
    return this.#repository.registrations((one) => counts(one) && matches(one), MAX_ENROLLED)
  }

  /** The passkeys of the policy. */
  get listed(): readonly Passkey[] {
    return hostOf(this.#container).reviewers?.passkeys ?? []
  }

  /** The id of the log in which votes are recorded; null without a log. */
  get logId(): string | null {
    return resolveOptional(this.#container, services.auditLog)?.logId() ?? null
  }

  /** Scheme, host and port of the console. @throws {VoteError} */
  get origin(): string {
    const page = resolveOptional(this.#container, services.approvalPage)?.('')
    if (page === undefined)
      throw new VoteError('PASSKEY_REQUIRED', 'There is no console to use a passkey on.')
    return new URL(page).origin
  }
}

function isOf(user: string | undefined, reviewer: Reviewer): boolean {
  if (reviewer.kind === 'admin' || user === undefined)
    return (reviewer.kind === 'admin') === (user === undefined)
  return user === reviewer.identity.user || user === reviewer.identity.userId
}

/** Whether it is a passkey that was confirmed and not revoked. */
export function counts({ enrolment, status }: StoredEscalation): boolean {
  return enrolment !== undefined && enrolment.revokedAt === undefined && status === 'approved'
}

/** The fingerprint of all registrations of the passkey, of which at most the newest counts. */
export function passkeyFingerprintOf(credentialId: string): string {
  return sha256Hex(`passkey\n${credentialId}`)
}

/** The passkey of a registration, if it is the reviewer's and for these votes. */
function keyFor(
  one: StoredEscalation,
  value: StoredEscalation,
  reviewer: Reviewer,
  vote: StoredVote,
): Key | undefined {
  const { enrolment, tenant } = one
  if (reviewer.kind === 'admin' || enrolment === undefined) return undefined
  const isOwn = tenant === reviewer.identity.tenant && enrolment.reviewer === vote.reviewer
  if (!isOwn || !isFor(one, value)) return undefined
  return { id: enrolment.credentialId, publicKey: enrolment.publicKey }
}

/** Whether the passkey was confirmed by people who vote on the escalation, so that nobody vouches beyond their own votes. */
function isFor({ tenant, rule }: StoredEscalation, value: StoredEscalation): boolean {
  const { approvalSetId: setId } = rule
  if (setId === undefined) return value.rule.approvalSetId === undefined && tenant === value.tenant
  const second = value.step === 'second_set' ? value.rule.secondSet?.setId : undefined
  return setId === value.rule.approvalSetId || setId === second
}

function noPasskey({ kind }: Reviewer): string {
  return kind === 'admin'
    ? 'admin.passkeys lists no passkey for the admin token, or not this one.'
    : 'You have no such passkey for this vote: register one, which another reviewer confirms.'
}
