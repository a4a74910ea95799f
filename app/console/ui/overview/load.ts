// Loads the overview.
import type { BlocksJson } from '../../../admin/block-operations.js'
import type { ActivityJson } from '../../activity-operation.js'
import type { HealthJson } from '../../health-operation.js'
import { type Api, apiRefusalOf } from '../kit/api.js'

export interface OverviewData {
  readonly activity: ActivityJson
  /** Undefined if the client may not read it. */
  readonly health: HealthJson | undefined
  readonly blocks: BlocksJson['blocks'] | undefined
}

export async function loadOverview(api: Pick<Api, 'get'>): Promise<OverviewData> {
  const [activity, health, blocks] = await Promise.all([
    api.get<ActivityJson>('/api/activity'),
    ifAllowed(api.get<HealthJson>('/api/health')),
    ifAllowed(api.get<BlocksJson>('/api/blocks')),
  ])
  return { activity, health, blocks: blocks?.blocks }
}

async function ifAllowed<Json>(asked: Promise<Json>): Promise<Json | undefined> {
  try {
    return await asked
  } catch (error) {
    if (apiRefusalOf(error).error === 'TOOL_NOT_ALLOWED') return undefined
    throw error
  }
}
