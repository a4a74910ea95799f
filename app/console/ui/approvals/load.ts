// What the view of escalations shows: what waits, and one of them whole.
import type { CallerView, EscalationJson, EscalationList } from '../../../escalations/escalation-json.js'
import type { Location } from '../../api.js'
import type { ContextJson } from '../../calls/operations.js'
import { type Api, apiRefusalOf } from '../kit/api.js'
import { valuesIn } from './sentence.js'

type Reads = Pick<Api, 'get' | 'text'>

/** What the list shows of an escalation: pages would be large with the inputs of all. */
export interface WaitingRow
  extends Pick<EscalationJson, 'id' | 'tool' | 'principal' | 'agent' | 'reason' | 'expires_at'> {
  readonly values: ReturnType<typeof valuesIn>
  /** An emergency call that ran, and whose review is open. */
  readonly isReview: boolean
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

export interface ApprovalDetail {
  readonly escalation: EscalationJson
  /** The whole input; undefined if it is hidden, or deleted after the decision. */
  readonly input: string | undefined
  readonly context: ContextJson
}

export function chosenId({ path }: Pick<Location, 'path'>): string | undefined {
  const [, , id] = path.split('/')
  return id === undefined || id === '' ? undefined : id
}

export async function loadApprovals(api: Reads, location: Location): Promise<ApprovalsData | CallerView> {
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
  const { waiting, more } = await loadWaiting(api)
  const id = chosen ?? waiting[0]?.id
  const detail = id === undefined ? undefined : await loadDetail(api, id)
  return { waiting, more, detail, isChosen: chosen !== undefined }
}

export async function loadWaiting(api: Reads): Promise<Waiting> {
  const { escalations, more } = await api.get<EscalationList>(
    '/api/escalations?status=undecided&first=oldest&limit=200',
  )
  return { waiting: escalations.map(rowOf), more }
}

function rowOf(escalation: EscalationJson): WaitingRow {
  const { id, tool, principal, agent, reason, expires_at, args, status } = escalation
  const row = { id, tool, principal, reason, expires_at, isReview: status !== 'pending' }
  return { ...row, ...(agent === undefined ? {} : { agent }), values: valuesIn(args) }
}

export async function loadDetail(api: Reads, id: string): Promise<ApprovalDetail> {
  const path = `/api/escalations/${encodeURIComponent(id)}`
  const [escalation, context] = await Promise.all([
    api.get<EscalationJson>(path),
    api.get<ContextJson>(`${path}/context`),
  ])
  const { args, args_truncated: isCut } = escalation
  const input = isCut === true && isUndecided(escalation) ? await api.text(`${path}/input`) : args
  return { escalation, input, context }
}

/** Whether people have to vote: on the call, or on the review of an emergency call. */
export function isUndecided({ status, emergency }: Pick<EscalationJson, 'status' | 'emergency'>): boolean {
  return status === 'pending' || emergency?.review === 'open'
}
