// Loads the view of a call.
import type { CallJson } from '../../calls/show-call.js'
import type { Api } from '../kit/api.js'

/** `id` is a leaf, or the id of a row with `-` in place of `:`. */
export function loadCall(api: Pick<Api, 'get'>, id: string): Promise<CallJson> {
  return api.get<CallJson>(`/api/calls/${encodeURIComponent(id)}`)
}
