// Loads the view of calls: the newest ones, or the one that the path names.

import type { Location } from '../../api.js'
import type { CallsJson } from '../../calls/operations.js'
import type { CallJson } from '../../calls/show-call.js'
import { loadCall } from '../call/load.js'
import type { Api } from '../kit/api.js'

export interface LiveData {
  readonly list?: CallsJson
  readonly shown?: CallJson
  /** The id, as the path has it. */
  readonly id?: string
}

const LISTED = 200

export async function loadLive(api: Pick<Api, 'get'>, { path }: Location): Promise<LiveData> {
  const [, , id = ''] = path.split('/')
  return id === '' ? { list: await loadCalls(api) } : { id, shown: await loadCall(api, id) }
}

export function loadCalls(api: Pick<Api, 'get'>): Promise<CallsJson> {
  return api.get<CallsJson>(`/api/calls?limit=${LISTED}`)
}
