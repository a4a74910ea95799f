// `subscriptions/listen` of 2026-07-28: a stream of the changes that the client asks for.
import type { Abortable } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { fulfillable, SUBSCRIPTIONS_ACKNOWLEDGED } from '../mcp/change-notifications.js'
import type { ServerDescription } from '../mcp/handshake.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { McpResponse } from '../mcp/servers.js'
import type { ChangeListener } from './notifications.js'
import { MessageStream } from './pending-response.js'
import type { StdioServer } from './stdio-server.js'

/** Opens a stream that begins with the part of the filter that the server can send. */
export function openListen(
  request: Fields,
  stdio: StdioServer,
  server: ServerDescription,
  signal: Abortable,
): McpResponse {
  const { id, params } = request
  const filter = isJsonObject(params) && isJsonObject(params['notifications']) ? params['notifications'] : {}
  const named = filter['resourceSubscriptions']
  const accepted = fulfillable(server, filter, Array.isArray(named) ? named.filter(isText) : [])
  const { resourceSubscriptions: uris = [] } = accepted
  const { notifications } = stdio
  const stamp = { _meta: { [META_SUBSCRIPTION_ID]: id } }
  const listener: ChangeListener = {
    filter: () => accepted,
    notify: ({ method, params: given }) => {
      body.offer({ jsonrpc: '2.0', method, params: { ...given, ...stamp } })
    },
    end: () => body.end({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...stamp } }),
  }
  const body = new MessageStream(() => {
    notifications.remove(listener)
    for (const uri of uris) notifications.unsubscribe(uri)
  }, signal)
  body.offer({
    jsonrpc: '2.0',
    method: SUBSCRIPTIONS_ACKNOWLEDGED,
    params: { notifications: accepted, ...stamp },
  })
  for (const uri of uris) notifications.subscribe(uri, false)
  notifications.add(listener)
  return body
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
