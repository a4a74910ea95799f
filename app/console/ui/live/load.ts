// What the view of calls begins with.
import type { CallsJson } from '../../calls/operations.js'
import type { Api } from '../kit/api.js'

export type LiveData = CallsJson

const LISTED = 200

export function loadLive(api: Pick<Api, 'get'>): Promise<LiveData> {
  return api.get<CallsJson>(`/api/calls?limit=${LISTED}`)
}
