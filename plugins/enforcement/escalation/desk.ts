// Where callers and reviewers meet: looks up, lists, takes votes, lets wait.
import {
  type EscalationDesk,
  type EscalationStatus,
  type EscalationVote,
  isVoteError,
  type PolicyFacts,
  type Redactor,
  type Reviewer,
  VoteError,
} from '@svc/core'
import { type Case, type CaseVote, shown } from './case.js'
import type { Cases } from './cases.js'
import { checkMayVote, personOf } from './people.js'
import { withVote } from './rules.js'
import type { Steps } from './steps.js'
import type { Waiters } from './waiters.js'

const LONGEST_COMMENT = 1000

export interface DeskParts {
  readonly cases: Cases
  readonly steps: Steps
  readonly waiters: Waiters
  readonly facts: PolicyFacts
  /** Asked when something is written; undefined where it may tell who voted. */
  redactor(): Redactor | undefined
}

export class Desk implements EscalationDesk {
  #parts: DeskParts

  constructor(parts: DeskParts) {
    this.#parts = parts
  }

  async find(id: string) {
    const found = await this.#parts.cases.find(id)
    return found && shown(found.value)
  }

  async list({ status, tenant, limit }: { status?: EscalationStatus; tenant?: string; limit: number }) {
    const isWanted = (value: Case) =>
      (status === undefined || value.status === status) && (tenant === undefined || value.tenant === tenant)
    return (await this.#parts.cases.list(isWanted, limit)).map(shown)
  }

  async vote(id: string, reviewer: Reviewer, given: Pick<EscalationVote, 'vote' | 'comment'>) {
    const { cases, steps, facts } = this.#parts
    const found = await cases.find(id)
    if (found === undefined) throw new VoteError('NOT_FOUND', 'There is no such escalation.')
    checkMayVote(found.value, reviewer, facts)
    const vote = this.#voteOf(id, reviewer, given)
    withVote(found.value, vote)
    // A vote that nobody can find in the log takes no effect.
    await steps.voted(found.value, vote, reviewer)
    const { value, before } = await this.#cast(found.value, vote, reviewer)
    if (value.status !== 'pending') await this.#recordDecision(value, before)
    return shown(value)
  }

  async wait(id: string, withinMs: number, signal: AbortSignal) {
    const { cases, waiters } = this.#parts
    let last = await this.find(id)
    if (last?.status !== 'pending') return last
    const look = async () => {
      const found = await cases.find(id)
      last = found && shown(found.value)
      return last?.status !== 'pending'
    }
    await waiters.until(id, look, { withinMs, signal })
    return last
  }

  async #cast(seen: Case, vote: CaseVote, reviewer: Reviewer): Promise<{ value: Case; before: Case }> {
    const { cases, steps } = this.#parts
    let before = seen
    try {
      const value = await cases.change(seen.id, (now) => {
        before = now
        return withVote(now, vote)
      })
      if (value === undefined) throw new VoteError('NOT_FOUND', 'There is no such escalation any longer.')
      return { value, before }
    } catch (fault) {
      if (isVoteError(fault)) await steps.voted(seen, vote, reviewer, fault)
      throw fault
    }
  }

  /** A decision that cannot be recorded is none; the vote is taken back with it, unless it was used already. */
  async #recordDecision(value: Case, before: Case): Promise<void> {
    const { cases, steps } = this.#parts
    try {
      await steps.decided(value)
    } catch (fault) {
      await cases.change(value.id, (now) => (now.decidedAt === value.decidedAt && !now.use ? before : now))
      throw fault
    }
  }

  #voteOf(
    id: string,
    reviewer: Reviewer,
    { vote, comment }: Pick<EscalationVote, 'vote' | 'comment'>,
  ): CaseVote {
    const { cases } = this.#parts
    const said = comment?.toWellFormed().slice(0, LONGEST_COMMENT)
    return {
      reviewer: this.#nameOf(reviewer),
      person: personOf(id, reviewer),
      roles: reviewer.kind === 'admin' ? [] : reviewer.identity.roles,
      vote,
      ...(said === undefined || said === '' ? {} : { comment: this.#parts.redactor()?.text(said) ?? said }),
      at: cases.now,
    }
  }

  #nameOf(reviewer: Reviewer): string {
    if (reviewer.kind === 'admin') return 'the admin token'
    const { user = '', tenant } = reviewer.identity
    return `${this.#parts.redactor()?.pseudonym(user) ?? user} of ${tenant}`
  }
}
