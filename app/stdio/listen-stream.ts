// `subscriptions/listen` of 2026-07-28: a stream of the changes that the client asks for.
import type { Abortable } from '@svc/core'
import { isFields } from '../mcp/listing.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { UpstreamAnswer } from '../upstream/answer.js'
import type { ServerDescription } from './handshake.js'
import { type ChangeListener, RESOURCE_UPDATED } from './notifications.js'
import { EventBody } from './request-answer.js'
import type { StdioServer } from './stdio-server.js'

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'

/** Which member of the filter, and which capability of the server, a change of a list needs. */
const lists = [
  { filter: 'toolsListChanged', feature: 'tools', method: 'notifications/tools/list_changed' },
  { filter: 'promptsListChanged', feature: 'prompts', method: 'notifications/prompts/list_changed' },
  { filter: 'resourcesListChanged', feature: 'resources', method: 'notifications/resources/list_changed' },
] as const

/** The stream begins with what of the filter the server can send. */
export function openListen(
  request: Fields,
  stdio: StdioServer,
  { capabilities }: ServerDescription,
  signal: Abortable,
): UpstreamAnswer {
  const { id, params } = request
  const filter = isFields(params) && isFields(params['notifications']) ? params['notifications'] : {}
  const offers = (feature: string, member: string): boolean => {
    const capability = capabilities[feature]
    return isFields(capability) && capability[member] === true
  }
  const heard = lists.filter(
    ({ filter: wanted, feature }) => filter[wanted] === true && offers(feature, 'listChanged'),
  )
  const named: unknown = filter['resourceSubscriptions']
  const uris = offers('resources', 'subscribe') && Array.isArray(named) ? named.filter(isText) : []
  const { notifications } = stdio
  const methods = new Set<string>(heard.map(({ method }) => method))
  const stamp = { _meta: { [SUBSCRIPTION]: id } }
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
  const body = new EventBody(() => {
    notifications.remove(listener)
    for (const uri of uris) notifications.unsubscribe(uri)
  }, signal)
  const accepted = {
    ...Object.fromEntries(heard.map(({ filter: wanted }) => [wanted, true])),
    ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
  }
  body.offer({
    jsonrpc: '2.0',
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: accepted, ...stamp },
  })
  for (const uri of uris) notifications.subscribe(uri, false)
  notifications.add(listener)
  return body.answer
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
