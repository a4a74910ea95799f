// Escalations that a reviewer of the admin API may list, read and vote on.

import {
  type Denied,
  denied,
  type ErrorCode,
  type EscalationStatus,
  isPerson,
  isRefusal,
  Refusal,
  type Reviewer,
} from '@svc/core'
import { defined } from '@svc/core/json'
import {
  type EnrolmentChallenge,
  type EnrolmentService,
  type Escalation,
  type EscalationFilter,
  type EscalationInput,
  type EscalationService,
  type GivenVote,
  isVotedOnBy,
  isVoteError,
  type PasskeyRegistration,
  type VoteChallenge,
  type VoteErrorCode,
  type VoterGroups,
} from '@svc/plugin-enforcement'
import type { AdminAccess, AdminAuthorizer } from '../policy/admin-authorizer.js'
import {
  type EscalationJson,
  type EscalationList,
  type EscalationQuery,
  reviewerView,
} from './escalation-json.js'

/** Number of escalations that one request reads, its own or not; the next goes on where it stopped. */
const maxRead = 10_000
/** Number of the newest escalations of all tenants that are watched for changes. */
const maxLatest = 200

type EscalationSearch = Pick<EscalationQuery, 'first' | 'limit'> & Partial<EscalationQuery>

interface FoundEscalations {
  readonly found: readonly Escalation[]
  /** The `after` of the next page; undefined after the last one. */
  readonly next: string | undefined
}

/** The errors of refused votes; `denial_reason` distinguishes those with the same code. */
const voteErrors: Record<VoteErrorCode, { readonly code: ErrorCode; readonly reason: string }> = {
  NOT_FOUND: { code: 'TARGET_NOT_FOUND', reason: 'not_found' },
  DECIDED: { code: 'IDEMPOTENT_DUPLICATE', reason: 'decided' },
  ALREADY_REGISTERED: { code: 'IDEMPOTENT_DUPLICATE', reason: 'already_registered' },
  ALREADY_VOTED: { code: 'IDEMPOTENT_DUPLICATE', reason: 'already_voted' },
  PASSKEY_REQUIRED: { code: 'TOOL_NOT_ALLOWED', reason: 'passkey_required' },
  INPUT_NOT_SEEN: { code: 'BAD_REQUEST', reason: 'input_not_seen' },
  NOT_A_REVIEWER: { code: 'TOOL_NOT_ALLOWED', reason: 'not_a_reviewer' },
}

export class ReviewerEscalations {
  #service: EscalationService
  #authorizer: AdminAuthorizer
  #reviewer: Reviewer
  #access: AdminAccess

  constructor(service: EscalationService, authorizer: AdminAuthorizer, reviewer: Reviewer) {
    this.#service = service
    this.#authorizer = authorizer
    this.#reviewer = reviewer
    this.#access = authorizer.accessOf(reviewer)
  }

  async list(query: EscalationQuery): Promise<EscalationList> {
    // An id of which the reader may not know leads nowhere.
    if (query.after !== undefined && timeIn(query.after) === undefined) await this.#find(query.after)
    const { found, next } = await this.#search(query)
    const escalations = found.map((one) => this.#view(one))
    return { escalations, ...(next === undefined ? { more: false } : { more: true, next }) }
  }

  /** The oldest that wait for votes, up to `limit`. `maxAgeMs` as in `EscalationFilter`. */
  waiting(limit: number, maxAgeMs?: number): Promise<FoundEscalations> {
    return this.#search({ status: 'undecided', first: 'oldest', limit }, maxAgeMs)
  }

  /** The newest of all tenants are read, so that the number does not depend on the reviewer, and filtered for the reviewer. */
  async latest(maxAgeMs: number): Promise<readonly Escalation[]> {
    const latest = await withStoreRefusal(() => this.#service.list({ limit: maxLatest, maxAgeMs }))
    return latest.filter((one) => this.#mayFind(one))
  }

  async #search(
    { status, review, tenant, enrolments, search, first, limit, after }: EscalationSearch,
    maxAgeMs?: number,
  ): Promise<FoundEscalations> {
    const voters = this.#access.readsAll || this.#access.readsOutlines ? undefined : this.#groups()
    if (voters?.tenant === undefined && voters?.sets.length === 0) return { found: [], next: undefined }
    const readsInput = this.#access.readsAll || voters !== undefined
    const readUpTo = after === undefined ? undefined : timeIn(after)
    const page = await withStoreRefusal(() =>
      this.#service.page({
        first,
        ...statusFilter(status),
        ...(search === undefined || search === '' ? {} : { search: { text: search, readsInput } }),
        ...defined({ review }),
        ...(enrolments === undefined ? {} : { isEnrolment: true }),
        ...defined({ tenant, voters }),
        limit: limit + 1,
        maxRead,
        ...defined({ readUpTo }),
        ...(after === undefined || readUpTo !== undefined ? {} : { after }),
        ...defined({ maxAgeMs }),
      }),
    )
    const found = page.found.slice(0, limit)
    if (page.found.length > limit) return { found, next: found.at(-1)?.id }
    return { found, next: page.readUpTo === undefined ? undefined : new Date(page.readUpTo).toISOString() }
  }

  async show(id: string): Promise<EscalationJson> {
    return this.#view(await this.#find(id))
  }

  /** All of it, for what else is shown beside it; undefined for a reader of outlines. */
  async whole(id: string): Promise<Escalation | undefined> {
    const found = await this.#find(id)
    return this.#mayReadInput(found) ? found : undefined
  }

  /** The whole input of the call that reviewers may see. */
  async input(id: string): Promise<EscalationInput> {
    if (!this.#mayReadInput(await this.#find(id))) {
      throw new Refusal('TOOL_NOT_ALLOWED', 'Viewers may not read the input of a call.')
    }
    const input = await withStoreRefusal(() => this.#service.input(id))
    if (input !== undefined) return input
    throw new Refusal(
      'TARGET_NOT_FOUND',
      'There is no input to read: the escalation is decided, or the policy hides arguments from reviewers.',
    )
  }

  async vote(id: string, vote: GivenVote): Promise<EscalationJson | Denied> {
    return this.#asVoter(id, async () => this.#view(await this.#service.vote(id, this.#reviewer, vote)))
  }

  /** The challenge that the reviewer's passkey has to sign for the votes, of which there is at least one. */
  async challenge(votes: readonly (GivenVote & { readonly id: string })[]): Promise<ChallengeJson | Denied> {
    const [first, ...others] = votes
    if (first === undefined) throw notFound()
    const ask = async (some: typeof votes) => {
      const { rpId, ...challenge } = await this.#service.challenge(this.#reviewer, some)
      return { ...challenge, rp_id: rpId }
    }
    for (const { id } of others) {
      const refused = await this.#asVoter(id, async () => undefined)
      if (refused !== undefined) return refused
    }
    const asked = await this.#asVoter(first.id, () => ask(votes))
    if (!('kind' in asked) || others.length === 0) return asked
    // The response names the one that is refused.
    for (const vote of votes) {
      const alone = await this.#asVoter(vote.id, () => ask([vote]))
      if ('kind' in alone) return alone
    }
    return asked
  }

  /** The challenge that the reviewer's authenticator has to sign to register a passkey. */
  async enrolmentChallenge(setId: string | undefined): Promise<EnrolmentChallengeJson | Denied> {
    return this.#asOwner(async (enrolments) => {
      const { rpId, ...challenge } = await enrolments.challenge(this.#reviewer, setId)
      return { ...challenge, rp_id: rpId }
    })
  }

  async enrol(setId: string | undefined, given: PasskeyRegistration): Promise<EscalationJson | Denied> {
    return this.#asOwner(async (enrolments) => {
      return this.#view(await enrolments.enrol(this.#reviewer, setId, given))
    })
  }

  async revoke(id: string): Promise<EscalationJson | Denied> {
    await this.#find(id)
    return this.#asOwner(async (enrolments) => {
      return this.#view(await enrolments.revoke(id, this.#reviewer, this.#access.operates))
    })
  }

  async #asOwner<T>(ask: (enrolments: EnrolmentService) => Promise<T>): Promise<T | Denied> {
    try {
      return await withStoreRefusal(async () => ask(await this.#service.enrolments()))
    } catch (error) {
      if (!isVoteError(error)) throw error
      const { code, reason } = voteErrors[error.code]
      return denied(code, error.message, { denial: { type: 'escalation', reason } })
    }
  }

  async #asVoter<T>(id: string, ask: () => Promise<T>): Promise<T | Denied> {
    const found = await withStoreRefusal(() => this.#service.find(id))
    // A reviewer of the tenant whose place a set has taken is refused by name; what waits stays hidden.
    if (found === undefined || !(this.#mayFind(found) || this.#access.tenant === found.tenant))
      throw notFound()
    const { status } = found
    if (this.#reviewer.kind === 'admin' && !this.#authorizer.tokenVotes) {
      const message = 'With OIDC configured votes are cast by people: send your own bearer token.'
      return denied('TOOL_NOT_ALLOWED', message, refusalOf(id, status, 'not_a_reviewer'))
    }
    if (this.#reviewer.kind === 'user' && !this.#isOwn(found)) {
      const message = 'You may not vote on this escalation.'
      return denied('TOOL_NOT_ALLOWED', message, refusalOf(id, status, 'not_a_reviewer'))
    }
    try {
      return await withStoreRefusal(ask)
    } catch (error) {
      if (!isVoteError(error)) throw error
      const { code, reason } = voteErrors[error.code]
      // Another vote may have decided it in the meantime, so the current status is read.
      const now = error.code === 'DECIDED' ? await withStoreRefusal(() => this.#service.find(id)) : undefined
      return denied(code, error.message, refusalOf(id, now?.status ?? status, reason))
    }
  }

  /** Votes on each, so that a refusal does not stop the others. An approval names the hash of the input that it approves. */
  async voteOnEach(given: readonly (GivenVote & { readonly id: string })[]): Promise<VoteResult[]> {
    const results: VoteResult[] = []
    for (const { id, ...vote } of given) {
      try {
        const voted = await this.#voteByHash(id, vote)
        results.push('kind' in voted ? { id, refused: voted } : { id, escalation: voted })
      } catch (error) {
        if (!isRefusal(error)) throw error
        results.push({ id, refused: denied(error.code, error.message) })
      }
    }
    return results
  }

  async #voteByHash(id: string, vote: GivenVote): Promise<EscalationJson | Denied> {
    const { status, args } = await this.#find(id)
    if (vote.vote === 'approve' && vote.inputSha256 === undefined && args !== undefined) {
      const message = 'Of several votes each approval needs the input_sha256 of what it approves.'
      return denied('BAD_REQUEST', message, refusalOf(id, status, 'input_not_seen'))
    }
    return this.vote(id, vote)
  }

  /** Rejects in the same way if the escalation does not exist and if the reviewer may not see it. */
  async #find(id: string): Promise<Escalation> {
    const found = await withStoreRefusal(() => this.#service.find(id))
    if (found === undefined || !this.#mayFind(found)) throw notFound()
    return found
  }

  #mayFind(escalation: Escalation): boolean {
    return this.#access.readsOutlines || this.#mayReadInput(escalation)
  }

  #mayReadInput(escalation: Escalation): boolean {
    return this.#access.readsAll || this.#isOwn(escalation)
  }

  #isOwn(escalation: Escalation): boolean {
    return isVotedOnBy(this.#groups(), escalation)
  }

  /** By which the reviewer votes: a service agent never does. */
  #groups(): VoterGroups {
    const { tenant, sets } = this.#access
    const isAgent = this.#reviewer.kind === 'user' && !isPerson(this.#reviewer.identity)
    return isAgent ? { tenant: undefined, sets: [] } : { tenant, sets: [...sets] }
  }

  #view(escalation: Escalation): EscalationJson {
    const { tokenVotes } = this.#authorizer
    if (this.#mayReadInput(escalation)) return reviewerView(escalation, tokenVotes)
    // The findings and the caller's words may quote the arguments.
    const { args, values, isTruncated, detail, agent, emergency, ...outline } = escalation
    const review = emergency === undefined ? {} : { emergency: { review: emergency.review } }
    return reviewerView({ ...outline, ...review }, tokenVotes)
  }
}

type ChallengeJson = Omit<VoteChallenge, 'rpId'> & { readonly rp_id: string }
type EnrolmentChallengeJson = Omit<EnrolmentChallenge, 'rpId'> & { readonly rp_id: string }

/** The result of one of several votes. */
export type VoteResult = { readonly id: string } & (
  | { readonly escalation: EscalationJson }
  | { readonly refused: Denied }
)

function refusalOf(id: string, status: EscalationStatus, reason: string) {
  return { escalation: { id, status }, denial: { type: 'escalation', reason } }
}

function statusFilter(status: EscalationQuery['status']): Pick<EscalationFilter, 'status' | 'isUndecided'> {
  if (status === undefined) return {}
  return status === 'undecided' || status === 'decided' ? { isUndecided: status === 'undecided' } : { status }
}

/** The time in the `after` of a page whose search had stopped; undefined for an id. */
function timeIn(after: string): number | undefined {
  return after.includes(':') ? Date.parse(after) : undefined
}

export function notFound(): Refusal {
  return new Refusal('TARGET_NOT_FOUND', 'There is no such escalation.')
}

/** Apart from refusals, the service rejects only when its store fails. */
export async function withStoreRefusal<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (isVoteError(cause) || isRefusal(cause)) throw cause
    throw new Refusal('STORE_UNAVAILABLE', 'The escalations cannot be looked up now. Try again later.', {
      cause,
    })
  }
}
