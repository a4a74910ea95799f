// The passkeys of reviewers: what one has to sign for a vote, and whether it did.
import {
  type DependencyContainer,
  type GivenVote,
  hostOf,
  type Passkey,
  type Reviewer,
  resolveOptional,
  services,
  VoteError,
} from '@svc/core'
import { assertionError, challengeOf, relyingPartyOf, type SignedVote } from '@svc/core/passkey'
import type { StoredEscalation, StoredVote } from './stored-escalation.js'

/** The members of a vote's record that prove it. */
export type ProvenVote = Readonly<Record<string, string>>

export class Passkeys {
  #container: DependencyContainer

  /** The container of the policy, which lists the passkeys. */
  constructor(container: DependencyContainer) {
    this.#container = container
  }

  /** @throws {VoteError} `PASSKEY_REQUIRED` if the reviewer has no passkey, or the console has no origin */
  challenge(value: StoredEscalation, reviewer: Reviewer, vote: StoredVote, nonce: string) {
    const credentials = this.#of(reviewer).map(({ id }) => id)
    if (credentials.length === 0) {
      throw new VoteError('PASSKEY_REQUIRED', 'admin.passkeys lists no passkey of yours.')
    }
    const challenge = challengeOf(this.#signed(value, vote, nonce))
    return { challenge, nonce, rpId: relyingPartyOf(this.#originOf(value)), credentials }
  }

  /** Rejects with `VoteError` `PASSKEY_REQUIRED` if the vote has no valid signature of a passkey of the reviewer */
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
    const { nonce, credentialId } = passkey
    const credential = this.#of(reviewer).find(({ id }) => id === credentialId)
    if (credential === undefined) throw new VoteError('PASSKEY_REQUIRED', 'This is no passkey of yours.')
    const assertion = {
      public_key: credential.publicKey,
      origin: this.#originOf(value),
      authenticator_data: passkey.authenticatorData,
      client_data_json: passkey.clientDataJson,
      signature: passkey.signature,
    }
    const error = await assertionError(this.#signed(value, vote, nonce), assertion)
    if (error !== undefined)
      throw new VoteError('PASSKEY_REQUIRED', `The passkey does not prove the vote: ${error}.`)
    return { nonce, ...assertion }
  }

  #signed({ id, fingerprint, inputSha256 }: StoredEscalation, vote: StoredVote, nonce: string): SignedVote {
    return {
      escalation: id,
      fingerprint,
      input_sha256: inputSha256,
      vote: vote.vote,
      comment: vote.comment ?? null,
      reviewer: vote.reviewer,
      log_id: resolveOptional(this.#container, services.auditLog)?.logId() ?? null,
      nonce,
    }
  }

  #of(reviewer: Reviewer): readonly Passkey[] {
    const { passkeys = [] } = hostOf(this.#container).reviewers ?? {}
    if (reviewer.kind === 'admin') return passkeys.filter(({ user }) => user === undefined)
    const { user, userId } = reviewer.identity
    return passkeys.filter((one) => one.user !== undefined && (one.user === user || one.user === userId))
  }

  /** Scheme, host and port of the console. */
  #originOf({ id }: StoredEscalation): string {
    const page = resolveOptional(this.#container, services.approvalPage)?.(id)
    if (page === undefined)
      throw new VoteError('PASSKEY_REQUIRED', 'There is no console to use a passkey on.')
    return new URL(page).origin
  }
}
