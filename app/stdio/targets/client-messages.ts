// Forwards messages of a client to a process of either era: in a session (to 2025-11-25), or one by one (2026-07-28).
import { isJsonObject, type JsonObject } from '@svc/core/json'
import {
  appCapabilities,
  passingCapabilities,
  type ServerDescription,
  type ServerSession,
} from '../../mcp/handshake.js'
import { clientMeta, revisionIn } from '../../mcp/meta.js'
import {
  HANDSHAKE_REVISION,
  handshakeRevisions,
  META_LOG_LEVEL,
  META_SERVER_INFO,
  rpcCodes,
  STATELESS_REVISION,
  sessionMethods,
} from '../../mcp/protocol.js'
import {
  asksForInput,
  negotiatedRevision,
  requestFor,
  responseFrom,
  uncached,
} from '../../mcp/revision-translation.js'
import { methodNotFound, rpcError, statusOfStateless } from '../../mcp/rpc-error.js'
import { type Fields, isResponse } from '../../mcp/rpc-response.js'
import { type McpResponse, messageResponse, noMessage } from '../../mcp/servers.js'
import { LISTEN_METHOD } from '../../mcp/subject.js'
import type { ClientSession } from './client-session.js'
import { type DispatchedRequest, forward } from './forward.js'
import type { Connection } from './rpc-channel.js'
import type { StdioServer } from './stdio-server.js'

/** `session` is undefined for a client of 2026-07-28. Rejects with `UpstreamError`, or with the reason of the signal. */
export async function respond(
  message: JsonObject,
  stdio: StdioServer,
  session: ClientSession | undefined,
  exchange: DispatchedRequest,
): Promise<McpResponse> {
  const { request, onSent } = exchange
  const connection = await stdio.connection(request.signal)
  const { id, method } = message
  if (isResponse(message) || id === undefined) {
    // Without a session, a disconnect cancels a request, and the protocol has no notifications of clients over HTTP.
    if (session !== undefined) accept(message, session, connection)
    onSent()
    return noMessage(202)
  }
  const { server } = connection
  const isStateless = session === undefined
  const statusOf = isStateless ? statusOfStateless : () => 200
  const own = isStateless ? statelessResponse(message, server) : sessionResponse(message, session, server)
  const opensStream = isStateless && server.isStateless && method === LISTEN_METHOD
  if (opensStream || own !== undefined) {
    onSent()
    request.call?.firstByte()
    if (own !== undefined) return messageResponse({ message: own }, statusOf(own))
    return stdio.notifications.listen(message, server, request.signal)
  }
  return forward(stdio, connection, exchange, {
    message:
      session === undefined ? message : requestFor(server, false, message, () => protocolMeta(session)),
    translate: (response) => {
      if (session === undefined) return response
      if (session.inputFor !== undefined && asksForInput(response['result'])) return response
      const shown = responseFrom(server, false, response, method)
      if ('result' in shown) noteSubscription(message, session)
      return shown
    },
    statusOf,
    running: session?.running,
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
function sessionResponse(
  { id, method, params }: JsonObject,
  session: ClientSession,
  server: ServerSession,
): Fields | undefined {
  const done = { jsonrpc: '2.0', id, result: {} }
  const { uri, level } = isJsonObject(params) ? params : {}
  switch (method) {
    case 'ping':
      return done
    case 'logging/setLevel':
      // The level is the process's, and log messages do not say whose request they are about.
      if (!session.server.isExclusive) return methodNotFound(id, method)
      if (!server.isStateless) return undefined
      session.logLevel = level
      return done
    case 'resources/subscribe':
      if (typeof uri !== 'string' || !server.isStateless) return undefined
      session.subscribe(uri, false)
      return done
    case 'resources/unsubscribe':
      if (typeof uri !== 'string') return undefined
      session.unsubscribe(uri)
      return done
    default:
      return undefined
  }
}

/** Does the same as `sessionResponse` for a request of 2026-07-28. */
function statelessResponse(
  { id, method, params }: JsonObject,
  server: ServerSession & ServerDescription,
): Fields | undefined {
  const requested = revisionIn(params)
  if (requested !== STATELESS_REVISION || !server.isStateless) {
    const supported = server.isStateless ? [...handshakeRevisions, STATELESS_REVISION] : handshakeRevisions
    const data = { supported, requested }
    return rpcError(id, rpcCodes.unsupportedVersion, 'Unsupported protocol version', data)
  }
  if (sessionMethods.has(method)) return methodNotFound(id, method)
  return method === 'server/discover' ? { jsonrpc: '2.0', id, result: discoverResult(server) } : undefined
}

/** The process has accepted a subscription of the client. */
function noteSubscription({ method, params }: Fields, session: ClientSession): void {
  if (method !== 'resources/subscribe' || !isJsonObject(params)) return
  if (typeof params['uri'] === 'string') session.subscribe(params['uri'], true)
}

function protocolMeta({ client, inputFor, logLevel }: ClientSession): JsonObject {
  const passing = inputFor === undefined ? appCapabilities : passingCapabilities
  const level = logLevel === undefined ? {} : { [META_LOG_LEVEL]: logLevel }
  return { ...clientMeta(client.clientInfo, passing(client.capabilities)), ...level }
}

// Describes a process to a client: the results of `initialize` and `server/discover`.

/** Capabilities of a process that several clients share: without logging, as log messages do not name their request. */
export function sharedCapabilities({ capabilities }: ServerDescription): Fields {
  const { logging: _, ...shared } = capabilities
  return shared
}

/** The response to a client's `initialize`. */
export function initializeResult(
  { revision, isStateless, serverInfo, instructions }: ServerSession & ServerDescription,
  requested: unknown,
  capabilities: Fields,
): Fields {
  return {
    protocolVersion: negotiatedRevision(requested, isStateless ? HANDSHAKE_REVISION : revision),
    capabilities,
    serverInfo,
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** The response to a client's `server/discover`. */
export function discoverResult(server: ServerDescription): Fields {
  const { serverInfo, instructions } = server
  return {
    resultType: 'complete',
    supportedVersions: [...handshakeRevisions, STATELESS_REVISION],
    capabilities: sharedCapabilities(server),
    ...(instructions === undefined ? {} : { instructions }),
    ...uncached,
    _meta: { [META_SERVER_INFO]: serverInfo },
  }
}
