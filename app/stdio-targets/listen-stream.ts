// `subscriptions/listen` of 2026-07-28: a stream of the changes that the client asks for.
import type { Abortable } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { listChanges, RESOURCE_UPDATED, SUBSCRIPTIONS_ACKNOWLEDGED } from '../mcp/change-notifications.js'
import { capabilityOf, type ServerDescription } from '../mcp/handshake.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { McpResponse } from '../mcp/servers.js'
import type { ChangeListener } from './notifications.js'
import { MessageStream } from './pending-response.js'
import type { StdioServer } from './stdio-server.js'

/** The stream begins with what of the filter the server can send. */
export function openListen(
  request: Fields,
  stdio: StdioServer,
  server: ServerDescription,
  signal: Abortable,
): McpResponse {
  const { id, params } = request
  const filter = isJsonObject(params) && isJsonObject(params['notifications']) ? params['notifications'] : {}
  const offers = (name: string, member: string): boolean => capabilityOf(server, name)?.[member] === true
  const changes = listChanges.filter(
    ({ flag, capability }) => filter[flag] === true && offers(capability, 'listChanged'),
  )
  const named: unknown = filter['resourceSubscriptions']
  const uris = offers('resources', 'subscribe') && Array.isArray(named) ? named.filter(isText) : []
  const { notifications } = stdio
  const methods = new Set<string>(changes.map(({ method }) => method))
  const stamp = { _meta: { [META_SUBSCRIPTION_ID]: id } }
  const listener: ChangeListener = {
    wants: (method, uri) =>
      method === RESOURCE_UPDATED
        ? uris.some((one) => uri === one || uri?.startsWith(`${one}/`))
        : methods.has(method),
    notify: (method, given) => {
      body.offer({ jsonrpc: '2.0', method, params: { ...given, ...stamp } })
    },
    end: () => body.end({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...stamp } }),
  }
  const body = new MessageStream(() => {
    notifications.remove(listener)
    for (const uri of uris) notifications.unsubscribe(uri)
  }, signal)
  const accepted = {
    ...Object.fromEntries(changes.map(({ flag }) => [flag, true])),
    ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
  }
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
