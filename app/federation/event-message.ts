// Messages about subscriptions, and of which subscription a message is.
import { isJsonObject } from '@svc/core/json'
import { SUBSCRIPTIONS_ACKNOWLEDGED } from '../mcp/change-notifications.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'

/** Whether a message is about a subscription itself: its acknowledgement or its end. */
export function isOfSubscription({ method }: Fields): boolean {
  return method === undefined || method === SUBSCRIPTIONS_ACKNOWLEDGED
}

/** The message as one of the subscription `id`; of none where it is undefined. */
export function withSubscription(message: Fields, id: string | number | undefined): Fields {
  const params = isJsonObject(message['params']) ? message['params'] : {}
  const meta = isJsonObject(params['_meta']) ? params['_meta'] : {}
  const { [META_SUBSCRIPTION_ID]: _own, ...others } = meta
  const named = id === undefined ? others : { ...others, [META_SUBSCRIPTION_ID]: id }
  const { _meta, ...rest } = params
  return { ...message, params: Object.keys(named).length === 0 ? rest : { ...rest, _meta: named } }
}
