// The escalation service: looks escalations up, lists them, casts votes, waits for decisions. A person is identified by the
// names in their token; only hashes are stored, salted with the id of the escalation.
import {
  type Clock,
  type DependencyContainer,
  type EscalationRule,
  hostOf,
  type Ids,
  isPerson,
  policyTokens,
  type Redactor,
  type Reviewer,
  resolveOptional,
} from '@svc/core'
import { defined, sha256Hex } from '@svc/core/json'
import { CachedReads } from '@svc/core/store'
import type { EscalationEvents } from './events.js'
import type { Passkeys } from './passkeys.js'
import { hashesOfNames } from './person.js'
import { publicView, votersView } from './public-view.js'
import type { EscalationRepository, Waiters } from './repository.js'
import {
  adminReviewer,
  type EscalationFilter,
  type EscalationPage,
  type EscalationPageFilter,
  type EscalationService,
  type EscalationStanding,
  type GivenVote,
  isMemberOf,
  isVotedOnBy,
  isVoteError,
  VoteError,
} from './service.js'
import { awaitsVotes, type StoredEscalation, type StoredVote, withVote } from './stored-escalation.js'

const MAX_COMMENT = 1000
/** Lists that are kept for those who watch: one for each group of voters. */
const MAX_LISTS = 64

interface ServiceOptions {
  readonly rule: EscalationRule
  readonly ids: Ids
  readonly clock: Pick<Clock, 'monotonic'>
  readonly repository: EscalationRepository
  readonly events: EscalationEvents
  readonly waiters: Waiters
  /** The container of the policy, which says who may vote. */
  readonly container: DependencyContainer
  /** Called at each write; undefined if votes may name people. */
  redactor(): Redactor | undefined
}

export class VotingService implements EscalationService {
  #options: ServiceOptions
  #lists: CachedReads<EscalationPage>

  constructor(options: ServiceOptions) {
    this.#options = options
    this.#lists = new CachedReads(options.clock, MAX_LISTS)
  }

  async find(id: string) {
    const found = await this.#options.repository.find(id)
    return found && publicView(found.value)
  }

  async input(id: string) {
    const { repository } = this.#options
    const { value } = (await repository.find(id)) ?? {}
    const text = value?.wholeSha256 === undefined ? value?.args : await repository.input(id)
    return text === undefined ? undefined : { text, sha256: sha256Hex(text) }
  }

  async list(filter: EscalationFilter) {
    return (await this.page({ ...filter, maxRead: Infinity })).found
  }

  page({ maxAgeMs, ...filter }: EscalationPageFilter) {
    const read = () => this.#page(filter)
    this.dropExpired()
    if (maxAgeMs === undefined) return read()
    // The key has all that the page depends on, the tenant and the sets of the reader among it.
    return this.#lists.of(JSON.stringify(filter), { read, keptMs: () => maxAgeMs })
  }

  /** Drops the pages that have expired. */
  dropExpired(): void {
    this.#lists.dropExpired()
  }

  async #page({ voters, first, limit, maxRead, after, readUpTo, ...filter }: EscalationPageFilter) {
    const { status, review, isUndecided, tenant, isEnrolment, search } = filter
    const isWanted = (value: StoredEscalation) =>
      (isEnrolment === undefined || value.enrolment !== undefined) &&
      (status === undefined || value.status === status) &&
      (isUndecided === undefined || awaitsVotes(value) === isUndecided) &&
      (review === undefined || value.emergency?.review === review) &&
      (tenant === undefined || value.tenant === tenant) &&
      (voters === undefined || isVotedOnBy(voters, votersView(value))) &&
      (search === undefined || isFoundBy(search, value))
    const isPending = isUndecided === true || status === 'pending' || review === 'open'
    const which = { isPending, first }
    const page = await this.#options.repository.list(isWanted, { limit, maxRead, which, after, readUpTo })
    return { ...page, found: page.found.map(publicView) }
  }

  async vote(id: string, reviewer: Reviewer, given: GivenVote) {
    const { repository, events } = this.#options
    const [found, stated] = await this.#voteOn(id, reviewer, given)
    const needsPasskey = found.rule.requiresPasskey === true || given.passkey !== undefined
    const passkey = needsPasskey
      ? await (await this.#passkeys()).proven(found, reviewer, stated, given)
      : undefined
    const vote: StoredVote = passkey === undefined ? stated : { ...stated, proof: 'passkey' }
    // A vote that cannot be recorded has no effect.
    await events.voted(found, vote, reviewer, { passkey })
    const { value, before } = await this.#cast(found, vote, reviewer)
    if (!awaitsVotes(value)) {
      await this.#recordDecision(value, before)
      await repository.removeInput(value)
    }
    return publicView(value)
  }

  /** The vote, and the escalation that it may be cast on. */
  async #voteOn(
    id: string,
    reviewer: Reviewer,
    given: GivenVote,
  ): Promise<readonly [StoredEscalation, StoredVote]> {
    const { value } = (await this.#options.repository.find(id)) ?? {}
    if (value === undefined) throw new VoteError('NOT_FOUND', 'There is no such escalation.')
    const refusal = voteRefusal(value, reviewer, this.#options.container)
    if (refusal !== undefined) throw new VoteError('NOT_A_REVIEWER', refusal)
    checkInputSeen(value, given)
    const vote = this.#voteOf(id, reviewer, given)
    withVote(value, vote)
    return [value, vote]
  }

  /** Loaded when a vote needs it. */
  async #passkeys(): Promise<Passkeys> {
    const { Passkeys } = await import('./passkeys.js')
    return new Passkeys(this.#options.container, this.#options.repository)
  }

  async standing(id: string, client: Reviewer): Promise<EscalationStanding | undefined> {
    const { repository, container } = this.#options
    const { value } = (await repository.find(id)) ?? {}
    if (value === undefined) return undefined
    const names = client.kind === 'admin' ? [] : personOf(id, client)
    const refusal = voteRefusal(value, client, container)
    return {
      isCaller: names.some((name) => value.caller.includes(name)),
      ...defined({ voteRefusal: refusal }),
    }
  }

  async challenge(reviewer: Reviewer, votes: readonly (GivenVote & { readonly id: string })[]) {
    const passkeys = await this.#passkeys()
    const stated = votes.map(async ({ id, ...given }) => await this.#voteOn(id, reviewer, given))
    return passkeys.challenge(await Promise.all(stated), reviewer)
  }

  async enrolments() {
    const { Enrolments } = await import('./enrolments.js')
    const { rule, ids, repository, events, container } = this.#options
    return new Enrolments({
      rule,
      ids,
      repository,
      events,
      container,
      nameOf: (reviewer) => this.#nameOf(reviewer),
      refusalOf: (value, reviewer) => voteRefusal(value, reviewer, container),
    })
  }

  async wait(id: string, withinMs: number, signal: AbortSignal) {
    const { repository, waiters } = this.#options
    let last = await this.find(id)
    if (last?.status !== 'pending') return last
    const poll = async () => {
      const found = await repository.find(id)
      last = found && publicView(found.value)
      return last?.status !== 'pending'
    }
    await waiters.until(id, poll, { withinMs, signal })
    return last
  }

  async #cast(
    seen: StoredEscalation,
    vote: StoredVote,
    reviewer: Reviewer,
  ): Promise<{ value: StoredEscalation; before: StoredEscalation }> {
    const { repository, events } = this.#options
    let before = seen
    try {
      const value = await repository.change(seen, (now) => {
        before = now
        return withVote(now, vote)
      })
      if (value === undefined) throw new VoteError('NOT_FOUND', 'The escalation no longer exists.')
      return { value, before }
    } catch (error) {
      if (isVoteError(error)) await events.voted(seen, vote, reviewer, { error })
      throw error
    }
  }

  /** A decision that cannot be recorded is reverted with its vote, unless the approval has been used. */
  async #recordDecision(value: StoredEscalation, before: StoredEscalation): Promise<void> {
    const { repository, events } = this.#options
    try {
      await (value.emergency === undefined ? events.decided(value) : events.reviewed(value))
    } catch (error) {
      await repository.change(value, (now) => {
        if (value.emergency !== undefined) return { ...now, votes: before.votes, emergency: before.emergency }
        return now.decidedAt === value.decidedAt && !now.use ? before : now
      })
      throw error
    }
  }

  #voteOf(id: string, reviewer: Reviewer, { vote, comment }: GivenVote): StoredVote {
    const { repository } = this.#options
    const text = comment?.toWellFormed().slice(0, MAX_COMMENT)
    return {
      reviewer: this.#nameOf(reviewer),
      person: personOf(id, reviewer),
      roles: reviewer.kind === 'admin' ? [] : reviewer.identity.roles,
      vote,
      ...(text === undefined || text === '' ? {} : { comment: this.#options.redactor()?.text(text) ?? text }),
      proof: reviewer.kind === 'admin' ? 'admin_token' : 'user_token',
      at: repository.now,
    }
  }

  #nameOf(reviewer: Reviewer): string {
    if (reviewer.kind === 'admin') return adminReviewer
    const { user = '', tenant } = reviewer.identity
    return `${this.#options.redactor()?.pseudonym(user) ?? user} of ${tenant}`
  }
}

/** If the preview is cut, an approval needs the hash, which shows that the reviewer has the whole input. */
function checkInputSeen({ args, wholeSha256 }: StoredEscalation, { vote, inputSha256 }: GivenVote): void {
  if (inputSha256 === undefined) {
    if (vote === 'reject' || wholeSha256 === undefined) return
    throw new VoteError(
      'INPUT_NOT_SEEN',
      'The preview shows only a part of the input: read the whole (…/input) and send its hash as input_sha256.',
    )
  }
  if (inputSha256 === (wholeSha256 ?? (args === undefined ? undefined : sha256Hex(args)))) return
  throw new VoteError(
    'INPUT_NOT_SEEN',
    'input_sha256 is not the hash of the input that this call would send.',
  )
}

/** The admin token counts as one person. No user can have this name: it is hashed with its kind. */
const ADMIN = 'admin'

/** Hashes of a reviewer's names. */
export function personOf(id: string, reviewer: Reviewer): string[] {
  if (reviewer.kind === 'admin') return [sha256Hex(`${ADMIN}\n${id}`)]
  return hashesOfNames(id, reviewer.identity)
}

/**
 * The reason why the reviewer may not vote; undefined if they may. A caller and a service agent never may; without an approval
 * set also not a user of another tenant or without a reviewer role, with one not a user outside it.
 */
export function voteRefusal(
  value: StoredEscalation,
  reviewer: Reviewer,
  container: DependencyContainer,
): string | undefined {
  const { approvalSetId, secondSet } = value.rule
  if (reviewer.kind === 'admin') {
    if (resolveOptional(container, policyTokens.knowsUsers) === true)
      return 'The admin token has no vote, because users are known.'
    return approvalSetId === undefined ? undefined : 'The admin token is in no approval set.'
  }
  const { identity } = reviewer
  const { reviewers } = hostOf(container)
  if (!isPerson(identity)) return 'Only a person may vote.'
  const own = personOf(value.id, reviewer)
  if (own.some((name) => value.caller.includes(name))) return 'Nobody votes on a call of their own.'
  const sets = reviewers?.approvalSets ?? {}
  const isInSet = (id: string) => {
    const set = Object.hasOwn(sets, id) ? sets[id] : undefined
    return set !== undefined && isMemberOf(set, identity)
  }
  if (value.step === 'second_set' && secondSet !== undefined && isInSet(secondSet.setId)) return undefined
  if (approvalSetId === undefined) {
    const isReviewer = (reviewers?.roles ?? []).some((role) => identity.roles.includes(role))
    if (!isReviewer) return "This needs a reviewer's role."
    return identity.tenant === value.tenant ? undefined : 'The call is another tenant’s.'
  }
  return isInSet(approvalSetId) ? undefined : 'This needs a member of the approval set.'
}

type Search = NonNullable<EscalationPageFilter['search']>

/** Searches names of the call, its caller, its reviewers, and what they and the input say. */
function isFoundBy({ text, readsInput }: Search, value: StoredEscalation): boolean {
  const { id, reference, principal, reasons, votes, opening } = value
  const outline = [id, reference, principal, ...reasons, ...votes.map(({ reviewer }) => reviewer)]
  const { args = '', detail = '', agent = '', emergency } = value
  const rest = readsInput
    ? [args, detail, agent, emergency?.reason, opening?.agentReason, ...votes.map(({ comment }) => comment)]
    : []
  const searched = [...outline, ...rest].join('\n').toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word))
}
