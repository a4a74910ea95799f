// Requests of clients without sessions (2026-07-28) in a session of a server. Clients of one identity share it and begin
// with the same ids, so a request has an id of the gateway's own there, which is also its token for progress.
import { isJsonObject } from '@svc/core/json'
import type { ClientExchange } from '../http/client-exchange.js'
import { isRequestId } from '../mcp/message.js'
import { metaOf, withMeta } from '../mcp/meta.js'
import { isStateless } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { ClientRequest, TranslatedRequest } from './client-request.js'
import { replyTo } from './server-calls.js'
import type { ServerLink } from './server-link.js'
import { requestTo } from './upstream-request.js'

export function isShared({ session }: ClientRequest, link: ServerLink): boolean {
  return isStateless(session.client.revision) && !link.isStateless
}

/** The request with the gateway's own id; what the server sends for it has the client's. */
export function withOwnId(request: TranslatedRequest, id: string): TranslatedRequest {
  const { message, translation } = request
  const { id: clientId } = message
  const { progressToken: token } = metaOf(message['params'])
  const own = token === undefined ? message : withMeta(message, { progressToken: id })
  return {
    ...request,
    message: { ...own, id },
    translation: {
      ...translation,
      ...(isRequestId(clientId) ? { clientId } : {}),
      response: (response) => ({ ...translation.response(response), id: clientId }),
      async message(sent) {
        const shown = await translation.message(sent)
        return shown !== undefined && progressIn(shown)?.['progressToken'] === id
          ? { ...shown, params: { ...progressIn(shown), progressToken: token } }
          : shown
      },
    },
  }
}

function progressIn({ method, params }: Fields): Fields | undefined {
  return method === 'notifications/progress' && isJsonObject(params) ? params : undefined
}

/**
 * Cancels the request `requestId` at its server when the client leaves, as a disconnect has no meaning there. Returns a
 * function that stops this, and resolves when the server has got the cancellation.
 */
export function cancelOnLeave(
  request: ClientRequest,
  link: ServerLink,
  requestId: string,
  client: ClientExchange,
): () => Promise<void> {
  let cancelling: Promise<unknown> | undefined
  const stop = client.onDisconnect(() => {
    cancelling = cancelAt(request, link, requestId)
  })
  return async () => {
    stop()
    await cancelling
  }
}

/** Cancels the request `requestId` at its server. */
export async function cancelAt(
  { session, calls, ownHeaders, config }: ClientRequest,
  link: ServerLink,
  requestId: string,
): Promise<void> {
  const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }
  const sent = requestTo(link, session.client, message, ownHeaders)
  await replyTo(calls, { server: link.server, method: 'POST', ...sent }, config.list_timeout_ms)
}
