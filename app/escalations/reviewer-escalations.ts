// Escalations that a reviewer of the admin API may list, read and vote on; and their JSON, in part for callers.
import {
  type Denied,
  denied,
  type ErrorCode,
  type Escalation,
  type EscalationInput,
  type EscalationService,
  type EscalationStatus,
  type GivenVote,
  isRefusal,
  isVoteError,
  Refusal,
  type Reviewer,
  type VoteErrorCode,
} from '@svc/core'
import type { AdminAccess, AdminAuthorizer } from '../policy/admin-authorizer.js'

const maxListed = 500
const defaultListed = 100
/** Number of escalations that are searched, as the service filters by one tenant and a reviewer may see several. */
const maxSearched = 5000

const statuses: readonly EscalationStatus[] = ['pending', 'approved', 'rejected']

/** The errors of refused votes; `denial_reason` distinguishes those with the same code. */
const voteErrors: Record<VoteErrorCode, { readonly code: ErrorCode; readonly reason: string }> = {
  NOT_FOUND: { code: 'TARGET_NOT_FOUND', reason: 'not_found' },
  DECIDED: { code: 'IDEMPOTENT_DUPLICATE', reason: 'decided' },
  ALREADY_VOTED: { code: 'IDEMPOTENT_DUPLICATE', reason: 'already_voted' },
  INPUT_NOT_SEEN: { code: 'BAD_REQUEST', reason: 'input_not_seen' },
  NOT_A_REVIEWER: { code: 'TOOL_NOT_ALLOWED', reason: 'not_a_reviewer' },
}

export class ReviewerEscalations {
  #service: EscalationService
  #authorizer: AdminAuthorizer
  #reviewer: Reviewer
  #access: AdminAccess

  /** Throws `Refusal` for a user who is not a reviewer. */
  constructor(service: EscalationService, authorizer: AdminAuthorizer, reviewer: Reviewer) {
    this.#service = service
    this.#authorizer = authorizer
    this.#reviewer = reviewer
    this.#access = authorizer.accessOf(reviewer)
    const { readsOutlines, readsAll, tenant, sets } = this.#access
    if (!readsOutlines && !readsAll && tenant === undefined && sets.size === 0) {
      throw new Refusal(
        'TOOL_NOT_ALLOWED',
        'None of your roles is in admin.roles, and you are in no approval set.',
      )
    }
  }

  /** The newest first. */
  async list(query: URLSearchParams): Promise<object> {
    const { status, tenant, limit } = readQuery(query)
    const { readsAll, readsOutlines, tenant: own, sets } = this.#access
    const isAll = readsAll || readsOutlines
    const isSearch = !isAll && sets.size > 0
    const asks = isAll || isSearch ? tenant : own
    const found = await withStoreRefusal(() =>
      this.#service.list({
        ...(status === undefined ? {} : { status }),
        ...(asks === undefined ? {} : { tenant: asks }),
        limit: isSearch ? maxSearched : limit + 1,
      }),
    )
    const seen = found.filter((one) => this.#mayFind(one) && (tenant === undefined || one.tenant === tenant))
    const isIncomplete = isSearch && found.length === maxSearched
    return {
      escalations: seen.slice(0, limit).map((one) => this.#view(one)),
      more: isIncomplete || seen.length > limit,
    }
  }

  async show(id: string): Promise<object> {
    return this.#view(await this.#find(id))
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

  async vote(id: string, vote: GivenVote): Promise<object | Denied> {
    const found = await this.#find(id)
    const { status } = found
    if (this.#reviewer.kind === 'admin' && !this.#authorizer.tokenVotes) {
      const message = 'With OIDC configured votes are cast by people: send your own bearer token.'
      return denied('TOOL_NOT_ALLOWED', message, refusalOf(id, status, 'not_a_reviewer'))
    }
    if (this.#reviewer.kind === 'user' && !this.#isOwn(found)) {
      const message = 'You may read this escalation, but not vote on it.'
      return denied('TOOL_NOT_ALLOWED', message, refusalOf(id, status, 'not_a_reviewer'))
    }
    try {
      return this.#view(await withStoreRefusal(() => this.#service.vote(id, this.#reviewer, vote)))
    } catch (error) {
      if (!isVoteError(error)) throw error
      const { code, reason } = voteErrors[error.code]
      // Another vote may have decided it in the meantime, so the current status is read.
      const now = error.code === 'DECIDED' ? await withStoreRefusal(() => this.#service.find(id)) : undefined
      return denied(code, error.message, refusalOf(id, now?.status ?? status, reason))
    }
  }

  /** Rejects for an escalation that the reviewer may not see as for one that does not exist. */
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

  /** Whether it is one of those that the reviewer votes on. */
  #isOwn({ tenant, approvalSetId, secondSetId }: Escalation): boolean {
    const { tenant: own, sets } = this.#access
    return own === tenant || [approvalSetId, secondSetId].some((id) => id !== undefined && sets.has(id))
  }

  #view(escalation: Escalation): object {
    if (this.#mayReadInput(escalation)) return reviewerView(escalation)
    // What was found may quote the arguments.
    const { args, isTruncated, detail, ...outline } = escalation
    return reviewerView(outline)
  }
}

function refusalOf(id: string, status: EscalationStatus, reason: string) {
  return { escalation: { id, status }, denial: { type: 'escalation', reason } }
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

interface Query {
  readonly status: EscalationStatus | undefined
  readonly tenant: string | undefined
  readonly limit: number
}

function readQuery(query: URLSearchParams): Query {
  for (const name of query.keys()) {
    if (!['status', 'tenant', 'limit'].includes(name) || query.getAll(name).length > 1) {
      throw new Refusal('BAD_REQUEST', 'Expected ?status=, ?tenant= and ?limit=, each at most once.')
    }
  }
  const wanted = query.get('status')
  const status = statuses.find((one) => one === wanted)
  if (wanted !== null && status === undefined) {
    throw new Refusal('BAD_REQUEST', `status: expected one of ${statuses.join(', ')}.`)
  }
  const limit = query.get('limit') ?? String(defaultListed)
  if (!/^[1-9]\d{0,2}$/.test(limit) || Number(limit) > maxListed) {
    throw new Refusal('BAD_REQUEST', `limit: expected 1 to ${maxListed}.`)
  }
  return { status, tenant: query.get('tenant') ?? undefined, limit: Number(limit) }
}

/** The view for reviewers: all fields, votes and comments included. Times are ISO 8601. */
function reviewerView(escalation: Escalation): object {
  const { id, status, tenant, server, tool, reference, principal, votes, traceId } = escalation
  const { reason, detail, args, severity, strategy, approvalSetId, isTruncated } = escalation
  return {
    id,
    status,
    tenant,
    server,
    tool,
    reference,
    principal,
    reason,
    ...(detail === undefined ? {} : { detail }),
    ...(args === undefined ? {} : { args }),
    ...(isTruncated === true ? { args_truncated: true } : {}),
    severity,
    strategy,
    ...(approvalSetId === undefined ? {} : { approval_set_id: approvalSetId }),
    votes: votes.map(({ reviewer, roles, vote, comment, at }) => ({
      reviewer,
      roles,
      vote,
      ...(comment === undefined ? {} : { comment }),
      at: instant(at),
    })),
    ...outcome(escalation),
    fingerprint: escalation.fingerprint,
    trace_id: traceId,
  }
}

/** The view for callers: without reviewers and principals, as every caller of the tenant may read it. */
export function callerView(escalation: Escalation): object {
  const { id, status, reference, reason, severity } = escalation
  return { escalation_id: id, escalation_status: status, reference, reason, severity, ...outcome(escalation) }
}

function outcome({ createdAt, expiresAt, decidedAt, decidedBy, isUsed }: Escalation): object {
  return {
    created_at: instant(createdAt),
    expires_at: instant(expiresAt),
    ...(decidedAt === undefined ? {} : { decided_at: instant(decidedAt) }),
    ...(decidedBy === undefined ? {} : { decided_by: decidedBy }),
    used: isUsed,
  }
}

function instant(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}

/** The characters of an escalation's id, so that nothing else reaches a store. */
export function isEscalationId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text)
}
