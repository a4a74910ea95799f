// What the view of escalations begins with.
import type { EscalationJson, EscalationList } from '../../../escalations/escalation-json.js'
import type { Location } from '../../api.js'
import type { Api } from '../kit/api.js'

export interface ApprovalsData {
  /** What waits, the oldest first. */
  readonly waiting: readonly EscalationJson[]
  readonly more: boolean
}

export async function loadApprovals(api: Pick<Api, 'get'>, _location: Location): Promise<ApprovalsData> {
  const { escalations, more } = await api.get<EscalationList>('/api/escalations?status=pending&limit=200')
  return { waiting: escalations.toReversed(), more }
}
