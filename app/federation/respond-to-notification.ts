// Forwards a client's notifications and responses to the servers that they are for.
import { type ClientExchange, writeOutcome } from '../http/client-exchange.js'
import { invalidRequest, isRequestId, type RpcNotification, type RpcResponse } from '../mcp/message.js'
import { toServer } from './client-message.js'
import { type ClientRequest, serverRequest } from './client-request.js'
import { routerOf } from './routed-request.js'
import { replyTo } from './server-calls.js'
import type { CancellableRequest } from './session.js'

/** Notifications for each server with which the client has a session. */
const forAll = new Set(['notifications/roots/list_changed'])

/** Responds with 202, or with the outcome of the call to the one server that the message is for. */
export async function respondToNotification(
  request: ClientRequest,
  message: RpcNotification | RpcResponse,
  client: ClientExchange,
): Promise<void> {
  // A server may run a notification as a request without a response.
  if (message.type === 'notification' && routerOf(message.method) !== undefined)
    throw invalidRequest(`id: ${message.method} is a request.`)
  if (message.type === 'response' && (await request.calls.clientRequests.give(request.session.id, message))) {
    // Its content is judged with the call that is repeated with it.
    await request.recordOwn(message)
    return client.whole({ status: 202, headers: {}, body: '' })
  }
  const cancelled = cancelledBy(request, message)
  if (cancelled === 'several') {
    await request.recordOwn(message)
    return client.whole({ status: 202, headers: {}, body: '' })
  }
  const notified = cancelled?.cancel()
  const routed = notified === undefined ? toServer(message) : { server: notified, whole: message.whole }
  const { session } = request
  const links = await session.openLinks()
  const link = links.find(({ server }) => server === routed?.server)
  if (cancelled !== undefined && link?.isStateless) cancelled.leave()
  else if (routed !== undefined && link !== undefined && request.servers.includes(link.server)) {
    return request.calls.run(serverRequest(request, link, routed.whole), (call, outcome, encoding) =>
      writeOutcome(client, call, outcome, encoding.encode),
    )
  }
  const isElsewhere = cancelled === undefined && isCancellation(message) && session.shared !== undefined
  const isForAll = message.type === 'notification' && forAll.has(message.method)
  // It is not known to which server another gateway has sent the request; the others ignore the cancellation.
  const all = isForAll || isElsewhere ? links : []
  const sessions = all.filter(({ sessionId }) => sessionId !== undefined)
  await Promise.all(sessions.map((one) => replyTo(request.calls, serverRequest(request, one, message.whole))))
  if (sessions.length === 0) await request.recordOwn(message)
  client.whole({ status: 202, headers: {}, body: '' })
}

function isCancellation(message: RpcNotification | RpcResponse): message is RpcNotification {
  return message.type === 'notification' && message.method === 'notifications/cancelled'
}

/** The request of the session that the client cancels. */
function cancelledBy(
  { session }: ClientRequest,
  message: RpcNotification | RpcResponse,
): CancellableRequest | 'several' | undefined {
  if (!isCancellation(message)) return undefined
  const { requestId } = message.params
  return isRequestId(requestId) ? session.running.find(requestId) : undefined
}
