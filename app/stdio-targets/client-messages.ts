// Forwards messages of a client to a process of either era: in a session (to 2025-11-25), or one by one (2026-07-28).
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { clientMeta, revisionIn } from '../mcp/meta.js'
import {
  handshakeRevisions,
  META_LOG_LEVEL,
  rpcCodes,
  STATELESS_REVISION,
  sessionMethods,
} from '../mcp/protocol.js'
import { requestFor, responseFrom } from '../mcp/revision-translation.js'
import { methodNotFound, rpcError, statusOfStateless } from '../mcp/rpc-error.js'
import { type Fields, isResponse } from '../mcp/rpc-response.js'
import { type McpResponse, messageResponse, noMessage } from '../mcp/servers.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { ClientSession } from './client-session.js'
import { discoverResult } from './description.js'
import { type DispatchedRequest, forward } from './forward.js'
import type { StdioServer } from './stdio-server.js'
import type { Connection } from './supervisor.js'

/** Rejects with `UpstreamError`, or with the reason of the signal. */
export async function respondInSession(
  message: JsonObject,
  session: ClientSession,
  exchange: DispatchedRequest,
): Promise<McpResponse> {
  const connection = await session.server.connection(exchange.request.signal)
  if (isResponse(message) || message['id'] === undefined) {
    accept(message, session, connection)
    exchange.onSent()
    return noMessage(202)
  }
  const own = ownResponse(message, session, connection)
  if (own !== undefined) {
    exchange.onSent()
    exchange.request.onHead?.()
    return messageResponse({ message: own })
  }
  const { server } = connection
  return forward(session.server, connection, exchange, {
    message: requestFor(server, false, message, () => protocolMeta(session)),
    translate: (response) => {
      const shown = responseFrom(server, false, response, message['method'])
      noteSubscription(message, shown, session)
      return shown
    },
    statusOf: () => 200,
    track: (running) => {
      session.running.set(message['id'], running)
      return () => session.running.delete(message['id'])
    },
  })
}

/** Hands the process a response or a notification of the client. */
function accept(message: Fields, session: ClientSession, { channel, server }: Connection): void {
  const { method, params } = message
  if (method === 'notifications/cancelled') {
    const running = session.running.get(isJsonObject(params) ? params['requestId'] : undefined)
    running?.cancel('the client has cancelled the request')
  } else if (session.server.isExclusive && !server.isStateless) channel.send(message)
}

/** The response to a request that the process need not, or must not, see; undefined for others. */
function ownResponse(
  request: JsonObject,
  session: ClientSession,
  { server }: Connection,
): Fields | undefined {
  const { id, method, params } = request
  const done = { jsonrpc: '2.0', id, result: {} }
  const uri = isJsonObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
  switch (method) {
    case 'ping':
      return done
    case 'logging/setLevel':
      // The level is the process's, and log messages do not say whose request they are about.
      if (!session.server.isExclusive) return methodNotFound(id, method)
      if (!server.isStateless) return undefined
      session.logLevel = isJsonObject(params) ? params['level'] : undefined
      return done
    case 'resources/subscribe':
      if (uri === undefined || !server.isStateless) return undefined
      session.subscribe(uri, false)
      return done
    case 'resources/unsubscribe':
      if (uri === undefined) return undefined
      session.unsubscribe(uri)
      return done
    default:
      return undefined
  }
}

function noteSubscription({ method, params }: Fields, response: Fields, session: ClientSession): void {
  if (method !== 'resources/subscribe' || !('result' in response) || !isJsonObject(params)) return
  if (typeof params['uri'] === 'string') session.subscribe(params['uri'], true)
}

function protocolMeta(session: ClientSession): JsonObject {
  const { clientInfo, logLevel } = session
  return { ...clientMeta(clientInfo), ...(logLevel === undefined ? {} : { [META_LOG_LEVEL]: logLevel }) }
}

/** Rejects with `UpstreamError`, or with the reason of the signal. */
export async function respondStateless(
  message: JsonObject,
  stdio: StdioServer,
  exchange: DispatchedRequest,
): Promise<McpResponse> {
  const connection = await stdio.connection(exchange.request.signal)
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
    return stdio.notifications.listen(message, server, exchange.request.signal)
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
