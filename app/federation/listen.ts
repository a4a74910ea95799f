// Responds to `subscriptions/listen` (2026-07-28) with the notifications of all servers.
import { eventOf } from '@svc/core/http'
import { isJsonObject, type JsonObject, stringifyJson } from '@svc/core/json'
import type { ClientExchange } from '../http/client-exchange.js'
import {
  fulfillable,
  isOfSubscription,
  isWanted,
  listChanges,
  mergeFilters,
  SUBSCRIPTIONS_ACKNOWLEDGED,
  withSubscription,
} from '../mcp/change-notifications.js'
import { resultIn } from '../mcp/handshake.js'
import { invalidParams, type RpcRequest } from '../mcp/message.js'
import { META_SUBSCRIPTION_ID } from '../mcp/protocol.js'
import { replaceMessage, shownEvent } from '../mcp/servers.js'
import { LISTEN_METHOD, resourceSubscriptions } from '../mcp/subject.js'
import { uriLookup } from './catalog.js'
import { ask, type ClientRequest, ownMessage } from './client-request.js'
import type { EntrySource } from './names.js'
import type { ServerLink } from './server-calls.js'
import { ClientStream, Flows, keepOpen, type ShowEvent } from './server-stream.js'
import { SubscribedUris } from './session.js'
import { serverResultOf, usableLinks } from './usable-servers.js'

/** URIs of a request, because a server with sessions gets a request for each. */
const maxUris = 1_000

/** A resource that the client subscribes to, by the client's URI and by the server's. */
interface Subscribed {
  readonly listed: string
  readonly source: EntrySource
}

/** Resolves when the stream has ended. Rejects with `McpRefusal` for a filter or a URI that is not valid. */
export async function respondToListen(
  request: ClientRequest,
  { id, params }: RpcRequest,
  client: ClientExchange,
  keepAliveMs: number,
): Promise<void> {
  const { notifications } = params
  if (!isJsonObject(notifications)) throw invalidParams('notifications: expected an object.')
  const uris = resourceSubscriptions(params)
  if (uris.length > maxUris) {
    throw invalidParams(`notifications.resourceSubscriptions: expected at most ${maxUris} URIs.`)
  }
  const sourceOf = await uriLookup(request, uris)
  const subscribed = uris.map((listed): Subscribed => ({ listed, source: sourceOf(listed) }))
  const results = await usableLinks(request)
  const isAwaiting = request.session.missing.size > 0
  const stream = new ClientStream(client, keepAliveMs)
  const flows = new Flows(stream)
  const listening = { request, id, stream, flows, wanted: notifications, subscribed }
  // The gateway itself announces the lists of servers that respond later.
  const fulfilled: Fulfilled[] = isAwaiting ? [{ server: '', filter: changesIn(notifications) }] : []
  const opening = Promise.all(
    results.map(async (result) => {
      const one = 'value' in result ? await listenAt(result.value, listening) : undefined
      if (one !== undefined) fulfilled.push(one)
    }),
  )
  let stopDelivering = (): void => undefined
  try {
    await Promise.race([opening, stream.pause(request.config.list_timeout_ms)])
    stream.begin(acknowledgement(id, fulfilled, subscribed))
    stopDelivering = request.session.deliverBy((changes) => {
      for (const change of changes.filter((one) => isWanted(one, notifications)))
        flows.add(stream.write(eventOf(stringifyJson(withSubscription(change, id)))))
    })
    await Promise.race([isAwaiting ? stream.closed : opening.then(() => flows.ended()), stream.closed])
    const result = { resultType: 'complete', _meta: { [META_SUBSCRIPTION_ID]: id } }
    await stream.write(eventOf(stringifyJson({ jsonrpc: '2.0', id, result })))
  } finally {
    stopDelivering()
    await flows.end()
  }
}

interface ListenContext {
  readonly request: ClientRequest
  readonly id: RpcRequest['id']
  readonly stream: ClientStream
  readonly flows: Flows
  readonly wanted: JsonObject
  readonly subscribed: readonly Subscribed[]
}

/** Resolves once the server has opened its stream, with its part of the filter; undefined if it opens none. */
async function listenAt(link: ServerLink, listening: ListenContext): Promise<Fulfilled | undefined> {
  const { request, id, stream, flows, wanted, subscribed } = listening
  const own = subscribed.filter(({ source }) => source.server === link.server)
  const uris = new SubscribedUris()
  for (const { listed, source } of own) uris.add(source, listed)
  const possible = fulfillable(
    link,
    wanted,
    own.map(({ source }) => source.name),
  )
  const filter = await prepareFilter(request, link, possible)
  if (Object.keys(filter).length === 0) return undefined
  const show = eventTranslator(link, id, filter, uris)
  const isOpen = await new Promise<boolean>((resolve) => {
    const flow = keepOpen({ request, link, stream, filter, show, opened: () => resolve(true) })
    flows.add(flow.finally(() => resolve(false)))
  })
  return isOpen ? { server: link.server, filter } : undefined
}

/** The part of a filter that is about lists. */
function changesIn(wanted: JsonObject): JsonObject {
  return Object.fromEntries(listChanges.flatMap(({ flag }) => (wanted[flag] === true ? [[flag, true]] : [])))
}

/** The part of the filter that one server fulfils. */
interface Fulfilled {
  readonly server: string
  readonly filter: JsonObject
}

function acknowledgement(
  id: RpcRequest['id'],
  fulfilled: readonly Fulfilled[],
  subscribed: readonly Subscribed[],
): Uint8Array {
  const uris = subscribed.filter(({ source }) =>
    fulfilled.some(({ server, filter }) => {
      const { resourceSubscriptions: own } = filter
      return server === source.server && Array.isArray(own) && own.includes(source.name)
    }),
  )
  const notifications = mergeFilters(
    fulfilled.map(({ filter }) => filter),
    uris.map(({ listed }) => listed),
  )
  const params = { notifications, _meta: { [META_SUBSCRIPTION_ID]: id } }
  return eventOf(stringifyJson({ jsonrpc: '2.0', method: SUBSCRIPTIONS_ACKNOWLEDGED, params }))
}

/** Subscribes at a server with sessions. Returns the filter without the resources that the server refused. */
async function prepareFilter(
  request: ClientRequest,
  link: ServerLink,
  filter: JsonObject,
): Promise<JsonObject> {
  const { resourceSubscriptions: uris, ...flags } = filter
  if (link.isStateless || !Array.isArray(uris)) return filter
  const notifications = { resourceSubscriptions: uris }
  const reply = await serverResultOf(
    link.server,
    ask(request, link.server, ownMessage(request, LISTEN_METHOD, { notifications })),
  )
  const { accepted: indices } = ('value' in reply ? resultIn(reply.value) : undefined) ?? {}
  const accepted = Array.isArray(indices) ? uris.filter((_uri, index) => indices.includes(index)) : []
  return accepted.length === 0 ? flags : { ...flags, resourceSubscriptions: accepted }
}

function eventTranslator(
  link: ServerLink,
  id: RpcRequest['id'],
  filter: JsonObject,
  uris: SubscribedUris,
): ShowEvent {
  return (event) => {
    const { message } = shownEvent(event)
    // Without a message the event is a comment of the server's; the client's stream has its own comments.
    if (message === undefined || isOfSubscription(message)) return undefined
    if (!link.isStateless && !isWanted(message, filter)) return undefined
    return replaceMessage(event, withSubscription(uris.shown(link.server, message), id))
  }
}
