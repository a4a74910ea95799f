// The GET stream of a client's session, with the notifications of all its servers.
import { eventOf } from '@svc/core/http'
import type { ClientExchange } from '../http/client-exchange.js'
import { LAST_EVENT_ID_HEADER } from '../http/header-names.js'
import { allChanges, isOfSubscription, withSubscription } from '../mcp/change-notifications.js'
import { replaceMessage, shownEvent } from '../mcp/shown-messages.js'
import type { ClientRequest } from './client-request.js'
import { ClientStream, Flows } from './client-stream.js'
import { serverEventId, withClientEventId } from './server-ids.js'
import type { ServerLink } from './server-link.js'
import { keepOpen, type ShowEvent } from './server-stream.js'
import type { FederationSession } from './session.js'

/** Resolves when the stream has ended. `Last-Event-ID` resumes the stream of the server that it names. */
export async function openSessionStream(
  request: ClientRequest,
  client: ClientExchange,
  keepAliveMs: number,
): Promise<void> {
  const { session, headers, servers } = request
  const stream = new ClientStream(client, keepAliveMs)
  const flows = new Flows(stream)
  const last = serverEventId(headers[LAST_EVENT_ID_HEADER])
  const attach = (link: ServerLink): void => {
    if (!servers.includes(link.server)) return
    const lastEventId = last?.server === link.server ? String(last.id) : undefined
    const show = eventTranslator(link, session)
    const opened = (): void => stream.begin()
    flows.add(keepOpen({ request, link, stream, filter: allChanges, show, opened, lastEventId }))
  }
  const stopDelivering = session.deliverBy((changes) => {
    for (const change of changes) flows.add(stream.write(eventOf(JSON.stringify(change))))
  })
  const links = await session.openLinks()
  const stopAttaching = session.links.onOpen(attach)
  for (const link of links) attach(link)
  // What comes later is announced on the stream, whatever streams the servers have.
  if (session.missing.size > 0) stream.begin()
  await Promise.race([stream.begun, stream.closed, flows.ended()])
  if (client.isBegun) await stream.closed
  stopAttaching()
  stopDelivering()
  // Status 405 means that the server does not offer this stream (Streamable HTTP).
  if (stream.isOpen) client.whole({ status: 405, headers: { allow: 'POST, DELETE' }, body: '' })
  await flows.end()
}

function eventTranslator(link: ServerLink, session: FederationSession): ShowEvent {
  return (event) => {
    const { message } = shownEvent(event)
    if (message === undefined) return withClientEventId(link.server, event)
    const isListening = link.isStateless
    if (isListening && isOfSubscription(message)) return undefined
    const ofSession = isListening ? withSubscription(message, undefined) : message
    const shown = session.subscribed.shown(link.server, ofSession)
    return withClientEventId(link.server, shown === message ? event : replaceMessage(event, shown))
  }
}
