// What the view of escalations shows: what waits, and one of them whole.
import type { CallerView, EscalationJson, EscalationList } from '../../../escalations/escalation-json.js'
import type { Location } from '../../api.js'
import type { ContextJson } from '../../calls/operations.js'
import { type Api, apiRefusalOf } from '../kit/api.js'

type Reads = Pick<Api, 'get' | 'text'>

export interface ApprovalsData {
  /** The oldest first. */
  readonly waiting: readonly EscalationJson[]
  readonly more: boolean
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

export function chosenId({ path }: Location): string | undefined {
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

export async function loadWaiting(
  api: Reads,
): Promise<{ readonly waiting: readonly EscalationJson[]; readonly more: boolean }> {
  const { escalations, more } = await api.get<EscalationList>('/api/escalations?status=pending&limit=200')
  return { waiting: escalations.toReversed(), more }
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
