// The requests of a client of 2026-07-28, each by itself, for a process of either era.
import { unlessAborted } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { handshakeRevisions, rpcCodes, STATELESS_REVISION, sessionMethods } from '../mcp/protocol.js'
import { requestFor, responseFrom } from '../mcp/revision-translation.js'
import type { Fields } from '../mcp/rpc-response.js'
import { type McpResponse, messageResponse, noMessage } from '../mcp/servers.js'
import { revisionIn } from '../mcp/stateless-request.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import { discoverResult } from './description.js'
import { type DispatchedRequest, forward } from './forward.js'
import { openListen } from './listen-stream.js'
import { methodNotFound, rpcError, statusOfStateless } from './rpc-error.js'
import type { StdioServer } from './stdio-server.js'

/** Rejects with `UpstreamError`, or with the reason of the signal. */
export async function answerStateless(
  message: JsonObject,
  stdio: StdioServer,
  exchange: DispatchedRequest,
): Promise<McpResponse> {
  const connection = await unlessAborted(exchange.request.signal, stdio.connection())
  const { server } = connection
  const { id, method } = message
  const own = (response: Fields): McpResponse => {
    exchange.onSent()
    exchange.request.onHead?.()
    return messageResponse({ message: response }, statusOfStateless(response))
  }
  // A disconnect cancels a request; the protocol has no notifications of clients over HTTP.
  if (id === undefined) {
    exchange.onSent()
    return noMessage(202)
  }
  const requested = revisionIn(message['params'])
  if (requested !== STATELESS_REVISION) {
    const supported = [...handshakeRevisions, STATELESS_REVISION]
    return own(
      rpcError(id, rpcCodes.unsupportedVersion, 'Unsupported protocol version', { supported, requested }),
    )
  }
  if (sessionMethods.has(method)) return own(methodNotFound(id, method))
  if (method === LISTEN_METHOD) {
    exchange.onSent()
    exchange.request.onHead?.()
    return openListen(message, stdio, server, exchange.request.signal)
  }
  if (method === 'server/discover') {
    return own({ jsonrpc: '2.0', id, result: discoverResult(server) })
  }
  return forward(stdio, connection, exchange, {
    message: requestFor(server, true, message),
    translate: (response) => responseFrom(server, true, response, method),
    statusOf: statusOfStateless,
  })
}
