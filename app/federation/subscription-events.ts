// Subscription ids in notifications, and event ids that name their server, so that a client can resume that server's stream.
import { withIds } from '@svc/core/http'
import { parseJsonObject } from '@svc/core/json'
import { SUBSCRIPTIONS_ACKNOWLEDGED } from '../mcp/change-notifications.js'
import { metaOf, replaceMeta } from '../mcp/meta.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'

const COLON = 0x3a

/** Whether a message is about a subscription itself: its acknowledgement or its end. */
export function isOfSubscription({ method }: Fields): boolean {
  return method === undefined || method === SUBSCRIPTIONS_ACKNOWLEDGED
}

/** The message with the subscription `id`, or without one if it is undefined. */
export function withSubscription(message: Fields, id: string | number | undefined): Fields {
  const { [META_SUBSCRIPTION_ID]: _own, ...others } = metaOf(message['params'])
  return replaceMeta(message, id === undefined ? others : { ...others, [META_SUBSCRIPTION_ID]: id })
}

/** The event with an id that names the server. */
export function withClientEventId(server: string, bytes: Uint8Array): Uint8Array {
  // A comment has no id, and need not be UTF-8.
  if (bytes[0] === COLON || !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes('id'))
    return bytes
  return withIds(bytes, (id) => clientEventId(server, id))
}

function clientEventId(server: string, id: string): string {
  return Buffer.from(JSON.stringify({ server, id })).toString('base64url')
}

/** The server and its own id in a `Last-Event-ID`; undefined for other ids. */
export function serverEventId(given: unknown): { readonly server: string; readonly id: string } | undefined {
  if (typeof given !== 'string') return undefined
  const { server, id } = parseJsonObject(Buffer.from(given, 'base64url').toString()) ?? {}
  return typeof server === 'string' && typeof id === 'string' ? { server, id } : undefined
}
