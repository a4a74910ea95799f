// Loads the view of escalations: the waiting ones, and one of them with all of its members.
import type { CallerView, EscalationJson, EscalationList } from '../../../escalations/escalation-json.js'
import type { Location } from '../../api.js'
import type { ContextJson } from '../../calls/operations.js'
import { type Api, apiRefusalOf } from '../kit/api.js'
import { sha256Of } from '../kit/sha256.js'
import { hiddenCharacters } from '../kit/untrusted.js'

type Reads = Pick<Api, 'get' | 'text'>

/** The members of an escalation that the list shows; with the inputs of all, pages would be large. */
export interface WaitingRow
  extends Pick<
    EscalationJson,
    'id' | 'server' | 'tool' | 'principal' | 'principal_kind' | 'agent' | 'reason' | 'expires_at' | 'values'
  > {
  /** An emergency call that ran, and whose review is open. */
  readonly isReview: boolean
  /** Whether the input, or as much of it as a list has, contains hidden characters. */
  readonly hasHidden: boolean
}

interface Waiting {
  /** The oldest first. */
  readonly waiting: readonly WaitingRow[]
  /** Whether there are others. */
  readonly more: boolean
}

export interface ApprovalsData extends Waiting {
  readonly detail: ApprovalDetail | undefined
  /** Whether the reader has chosen it, by its URL; else it is the first. */
  readonly isChosen: boolean
}

/** The last part of the path of the page, which is the id of no escalation. */
export const DECIDED = 'decided'

export interface DecidedData {
  /** The newest is first. */
  readonly decided: readonly EscalationJson[]
  /** The `after` of the next page. */
  readonly next: string | undefined
}

const decidedRows = 50

export async function loadDecided(api: Pick<Api, 'get'>, query: string): Promise<DecidedData> {
  const given = new URLSearchParams(query)
  const asked = new URLSearchParams({ status: DECIDED, limit: String(decidedRows) })
  for (const name of ['search', 'after']) {
    const value = given.get(name)
    if (value !== null && value !== '') asked.set(name, value)
  }
  const { escalations, next } = await api.get<EscalationList>(`/api/escalations?${asked}`)
  return { decided: escalations, next }
}

export interface ShownCall {
  readonly escalation: EscalationJson
  /** The whole input; undefined if it is hidden, or deleted after the decision. */
  readonly input: string | undefined
  /** The hash of `input`: the gateway refuses an approval of another. */
  readonly sha256: string | undefined
}

export interface ApprovalDetail extends ShownCall {
  readonly context: ContextJson
}

export function chosenId({ path }: Pick<Location, 'path'>): string | undefined {
  const [, , id] = path.split('/')
  return id === undefined || id === '' || id === DECIDED ? undefined : id
}

export async function loadApprovals(
  api: Reads,
  location: Location,
): Promise<ApprovalsData | DecidedData | CallerView> {
  if (location.path.split('/')[2] === DECIDED) return loadDecided(api, location.query)
  const chosen = chosenId(location)
  try {
    return await loadForReviewer(api, chosen)
  } catch (error) {
    // The caller has a page of their own; for others there is none.
    const { status } = apiRefusalOf(error)
    if (chosen === undefined || (status !== 403 && status !== 404)) throw error
    return await api.get<CallerView>(`/api/escalations/${encodeURIComponent(chosen)}/state`)
  }
}

async function loadForReviewer(api: Reads, chosen: string | undefined): Promise<ApprovalsData> {
  const { waiting, more } = await loadWaiting(api, firstRows)
  const id = chosen ?? waiting[0]?.id
  const detail = id === undefined ? undefined : await loadDetail(api, id)
  return { waiting, more, detail, isChosen: chosen !== undefined }
}

/** Rows of the first page, and of one request at most. */
export const firstRows = 50
const MAX_ROWS = 500

/** The oldest, up to `count` of them. */
export async function loadWaiting(api: Reads, count: number): Promise<Waiting> {
  const waiting: WaitingRow[] = []
  let next: string | undefined = ''
  while (next !== undefined && waiting.length < count) {
    const after: string = next === '' ? '' : `&after=${encodeURIComponent(next)}`
    const limit = Math.min(MAX_ROWS, count - waiting.length)
    const path = `/api/escalations?status=undecided&first=oldest&limit=${limit}${after}`
    const page: EscalationList = await api.get<EscalationList>(path)
    waiting.push(...page.escalations.map(rowOf))
    next = page.next
  }
  return { waiting, more: next !== undefined }
}

function rowOf(escalation: EscalationJson): WaitingRow {
  const {
    id,
    server,
    tool,
    principal,
    principal_kind,
    agent,
    reason,
    expires_at,
    values,
    status,
    args = '',
  } = escalation
  const isReview = status !== 'pending'
  const hasHidden = hiddenCharacters(args).length > 0
  return {
    ...{ id, server, tool, principal, principal_kind, agent, reason, expires_at, values },
    ...{ isReview, hasHidden },
  }
}

export async function loadDetail(api: Reads, id: string): Promise<ApprovalDetail> {
  const [call, context] = await Promise.all([
    loadShownCall(api, id),
    api.get<ContextJson>(`${pathOf(id)}/context`),
  ])
  return { ...call, context }
}

export async function loadShownCall(api: Reads, id: string): Promise<ShownCall> {
  const escalation = await api.get<EscalationJson>(pathOf(id))
  const { args, args_truncated: isCut } = escalation
  const input = isCut === true && isUndecided(escalation) ? await api.text(`${pathOf(id)}/input`) : args
  return { escalation, input, sha256: input === undefined ? undefined : await sha256Of(input) }
}

function pathOf(id: string): string {
  return `/api/escalations/${encodeURIComponent(id)}`
}

/** Whether people have to vote: on the call, or on the review of an emergency call. */
export function isUndecided({ status, emergency }: Pick<EscalationJson, 'status' | 'emergency'>): boolean {
  return status === 'pending' || emergency?.review === 'open'
}
