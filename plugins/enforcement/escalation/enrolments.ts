// Passkeys that reviewers register themselves. Each waits like a call until others confirm it by the same rule, each with a
// passkey of their own, so that an attacker who has only a session cannot register one.
import { createHash } from 'node:crypto'
import {
  type DependencyContainer,
  type EscalationRule,
  type Identity,
  type Ids,
  personKeyOf,
  type Reviewer,
} from '@svc/core'
import { canonicalize, defined, messageOf, sha256Hex } from '@svc/core/json'
import {
  algorithms,
  enrolmentChallengeOf,
  nonceError,
  nonceOf,
  registeredKeyOf,
  relyingPartyOf,
} from '@svc/core/passkey'
import type { EscalationEvents } from './events.js'
import { counts, MAX_ENROLLED, Passkeys, passkeyFingerprintOf } from './passkeys.js'
import { hashesOfNames } from './person.js'
import { publicView } from './public-view.js'
import type { EscalationRepository } from './repository.js'
import {
  type EnrolmentChallenge,
  type EnrolmentService,
  type Escalation,
  type PasskeyRegistration,
  VoteError,
} from './service.js'
import { decided, type StoredEscalation, statementOf } from './stored-escalation.js'

/** Time for others to confirm a passkey, in milliseconds. */
const CONFIRM_MS = 24 * 3_600_000

const registeredAlready = 'This passkey is registered already.'
const tooManyPasskeys = `You have ${MAX_ENROLLED} passkeys, with those that wait; revoke one first.`

interface EnrolmentOptions {
  readonly rule: EscalationRule
  readonly repository: EscalationRepository
  readonly events: EscalationEvents
  readonly ids: Ids
  /** The container of the policy. */
  readonly container: DependencyContainer
  /** The name of the reviewer in votes. */
  nameOf(reviewer: Reviewer): string
  /** The reason why the reviewer may not vote on the escalation; undefined if they may. */
  refusalOf(value: StoredEscalation, reviewer: Reviewer): string | undefined
}

export class Enrolments implements EnrolmentService {
  #options: EnrolmentOptions
  #passkeys: Passkeys

  constructor(options: EnrolmentOptions) {
    this.#options = options
    this.#passkeys = new Passkeys(options.container, options.repository)
  }

  async challenge(reviewer: Reviewer, setId: string | undefined): Promise<EnrolmentChallenge> {
    const identity = this.#personIn(reviewer, setId)
    const name = this.#options.nameOf(reviewer)
    const nonce = nonceOf(this.#options.repository.now, identity.roles)
    const own = await this.#passkeys.enrolled(({ enrolment }) => enrolment?.reviewer === name)
    return {
      challenge: this.#challengeOf(name, setId, nonce),
      nonce,
      rpId: relyingPartyOf(this.#passkeys.origin),
      credentials: own.flatMap(({ enrolment }) => enrolment?.credentialId ?? []),
      user: { id: createHash('sha256').update(name).digest('base64url'), name },
      algorithms,
    }
  }

  async enrol(
    reviewer: Reviewer,
    setId: string | undefined,
    given: PasskeyRegistration,
  ): Promise<Escalation> {
    const { repository, events } = this.#options
    const identity = this.#personIn(reviewer, setId)
    const name = this.#options.nameOf(reviewer)
    const publicKey = await this.#keyOf(given, name, identity, setId)
    const fingerprint = passkeyFingerprintOf(given.credentialId)
    const latest = (await repository.latest(fingerprint))?.value
    const isTaken = latest !== undefined && occupies(latest)
    if (isTaken || this.#passkeys.listed.some(({ id }) => id === given.credentialId))
      throw new VoteError('ALREADY_REGISTERED', registeredAlready)
    const isOwn = (one: StoredEscalation) => one.enrolment?.reviewer === name && occupies(one)
    if ((await repository.registrations(isOwn, MAX_ENROLLED)).length >= MAX_ENROLLED)
      throw new VoteError('ALREADY_REGISTERED', tooManyPasskeys)
    const value = this.#newEscalation(
      identity,
      setId,
      {
        reviewer: name,
        credentialId: given.credentialId,
        publicKey,
      },
      fingerprint,
    )
    const opened = await repository.open({ value, input: undefined }, latest?.id)
    if (opened === 'raced') throw new VoteError('ALREADY_REGISTERED', registeredAlready)
    if (opened === 'full')
      throw new VoteError('ALREADY_REGISTERED', 'Too many registrations or calls of yours wait.')
    try {
      await events.opened(value, identity)
    } catch (error) {
      await repository.withdraw(value)
      throw error
    }
    return publicView(value)
  }

  async revoke(id: string, reviewer: Reviewer, ofOthers: boolean): Promise<Escalation> {
    const { repository, events } = this.#options
    const { value } = (await repository.find(id)) ?? {}
    if (value?.enrolment === undefined) throw new VoteError('NOT_FOUND', 'There is no such passkey.')
    const isOwn = reviewer.kind === 'user' && this.#options.nameOf(reviewer) === value.enrolment.reviewer
    if (!isOwn && !ofOthers)
      throw new VoteError('NOT_A_REVIEWER', 'A passkey is revoked by its owner, or by an operator.')
    if (value.enrolment.revokedAt !== undefined || value.status === 'rejected')
      throw new VoteError('DECIDED', 'It does not count already.')
    await events.revoked(value, reviewer)
    const { now } = repository
    const revoked = await repository.change({ id }, (found) => {
      if (found.enrolment === undefined || found.enrolment.revokedAt !== undefined) return found
      const ended = { ...found, enrolment: { ...found.enrolment, revokedAt: now } }
      // A pending registration is rejected, so that nobody can confirm it.
      return found.status === 'pending' ? decided(ended, 'rejected', now) : ended
    })
    return publicView(revoked ?? value)
  }

  /** @throws {VoteError} `NOT_A_REVIEWER` unless the reviewer is a person with a vote there */
  #personIn(reviewer: Reviewer, setId: string | undefined): Identity {
    const { rule } = this.#options
    if (reviewer.kind === 'admin') {
      const message = 'The admin token has no second person: list its passkey in admin.passkeys.'
      throw new VoteError('NOT_A_REVIEWER', message)
    }
    if (rule.requiresPasskey !== true || rule.strategy === 'auto_allow')
      throw new VoteError('NOT_A_REVIEWER', 'No vote needs a passkey under this policy.')
    const sample = this.#newEscalation(
      reviewer.identity,
      setId,
      { reviewer: '', credentialId: '', publicKey: '' },
      '',
    )
    const refusal = this.#options.refusalOf({ ...sample, caller: [] }, reviewer)
    if (refusal !== undefined) throw new VoteError('NOT_A_REVIEWER', refusal)
    return reviewer.identity
  }

  async #keyOf(
    { nonce, ...response }: PasskeyRegistration,
    name: string,
    { roles }: Identity,
    setId: string | undefined,
  ): Promise<string> {
    const { repository } = this.#options
    const stale = nonceError(nonce, repository.now, roles)
    if (stale !== undefined)
      throw new VoteError('PASSKEY_REQUIRED', `The passkey is not registered: ${stale}.`)
    try {
      return await registeredKeyOf(this.#challengeOf(name, setId, nonce), this.#passkeys.origin, response)
    } catch (error) {
      throw new VoteError('PASSKEY_REQUIRED', `The passkey is not registered: ${messageOf(error)}.`)
    }
  }

  #challengeOf(name: string, setId: string | undefined, nonce: string): string {
    const { logId } = this.#passkeys
    return enrolmentChallengeOf({ enrol: name, approval_set_id: setId ?? null, log_id: logId, nonce })
  }

  #newEscalation(
    identity: Identity,
    setId: string | undefined,
    enrolment: NonNullable<StoredEscalation['enrolment']>,
    fingerprint: string,
  ): StoredEscalation {
    const { rule, repository, ids } = this.#options
    const { strategy, minApprovals, minRejections, requiredRoles, vetoRoles } = rule
    const approvalSetId = setId ?? rule.approvalSetId
    const id = `esc_${ids.traceId()}`
    const { now } = repository
    const args = canonicalize(statementOf(enrolment, approvalSetId))
    return {
      id,
      fingerprint,
      tenant: identity.tenant,
      server: 'gateway',
      tool: 'enrol_passkey',
      reference: 'passkeys/enrol@1',
      args,
      inputSha256: sha256Hex(args),
      principal: enrolment.reviewer,
      personKey: personKeyOf(identity),
      caller: hashesOfNames(id, identity),
      reasons: ['passkey_enrolment'],
      detail: 'approve it only if its owner reads you its code: their session alone could register another',
      severity: 'high',
      rule: {
        strategy,
        timeoutAction: 'auto_reject',
        ttlMs: CONFIRM_MS,
        minApprovals,
        minRejections,
        requiredRoles,
        vetoRoles,
        ...defined({ approvalSetId }),
        requiresPasskey: true,
      },
      status: 'pending',
      enrolment,
      votes: [],
      traceId: ids.traceId(),
      spanId: ids.spanId(),
      createdAt: now,
      expiresAt: now + CONFIRM_MS,
    }
  }
}

/** Whether the registration counts, or will count once others confirm it. */
function occupies(one: StoredEscalation): boolean {
  return one.status === 'pending' || counts(one)
}
