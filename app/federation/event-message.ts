// The message in an event of a server, and an event with another one.
import { readEvent, withData } from '@svc/core/http'
import { isJsonObject, parseJsonObject } from '@svc/core/json'
import { SUBSCRIPTIONS_ACKNOWLEDGED } from '../mcp/change-notifications.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'

/** Undefined for comments, and events without a message. */
export function messageOfEvent(event: Uint8Array): Fields | undefined {
  if (event.byteLength === 0 || event[0] === 0x3a) return undefined
  const { data } = readEvent(event)
  return data === '' ? undefined : parseJsonObject(data)
}

export function withMessage(event: Uint8Array, message: Fields): Uint8Array {
  return withData(event, JSON.stringify(message))
}

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
