// One request of a client of several servers, and the requests to servers on its behalf.
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { Translation } from '../mcp/exchange.js'
import { capabilityOf, metaOfClient, sessionHeaders } from '../mcp/handshake.js'
import type { Message } from '../mcp/message.js'
import { isStateless } from '../mcp/protocol.js'
import { responseWithoutClient } from '../mcp/rpc-error.js'
import { inSession } from '../mcp/server-sessions.js'
import type { FederationConfig } from '../policy/federation-config.js'
import { type Reply, replyTo, type ServerCalls, type ServerRequest } from './server-calls.js'
import type { ServerHealth } from './server-health.js'
import { openLink, type ServerLink } from './server-link.js'
import type { FederationSession } from './session.js'
import { requestTo, translationFrom } from './upstream-request.js'

export interface ClientRequest {
  readonly session: FederationSession
  readonly calls: ServerCalls
  readonly headers: IncomingHttpHeaders
  /** Headers of the gateway's own requests on the client's behalf, with their common trace. */
  readonly ownHeaders: IncomingHttpHeaders
  /** The servers of the endpoint that the caller's token is for, in the order of the policy. */
  readonly servers: readonly string[]
  readonly config: FederationConfig
  /** Time that a server may take to start, in milliseconds. */
  startTimeoutMs(server: string): number
  readonly clock: Clock
  readonly health: ServerHealth
  /** A hash of the policy and the caller's credentials, on which lists depend. */
  readonly scope: string
  /** Records a request for which no server is called. */
  recordOwn(message: Message): Promise<void>
  /** Logs a server whose part of a merged response is missing or incomplete. */
  logMissing(server: string, reason: string): void
  /** Logs a URI that several servers have; the first of them keeps it. */
  logConflict(uri: string, servers: readonly string[]): void
}

export type TranslatedRequest = ServerRequest & {
  readonly message: JsonObject
  readonly translation: Translation
}

/** Observes the calls of one server; the rules of the first judged call tell which servers the caller may use. */
export type CallHooks = Pick<ServerRequest, 'onCall' | 'onJudged'>

/**
 * Rejects with `ServerUnavailable`. `hooks` mean that several servers are linked; then a server that was unavailable just
 * now is not tried again.
 */
export function linkTo(request: ClientRequest, server: string, hooks?: CallHooks): Promise<ServerLink> {
  const { session, config } = request
  return session.links.of(server, {
    failureMs: hooks === undefined ? 0 : config.list_ttl_ms,
    open: () =>
      session.openLink(
        server,
        () => openLinkOf(request, server, hooks ?? {}),
        (unused) => endLink(request, unused),
      ),
  })
}

/** Ends a client's session at a server. */
export async function endLink({ calls, ownHeaders, config }: ClientRequest, link: ServerLink): Promise<void> {
  const headers = { ...ownHeaders, ...sessionHeaders(link) }
  const request = { server: link.server, method: 'DELETE', headers, message: null } as const
  await replyTo(calls, request, config.list_timeout_ms)
}

async function openLinkOf(request: ClientRequest, server: string, hooks: CallHooks): Promise<ServerLink> {
  const { session, calls, ownHeaders, config } = request
  const observed: ServerCalls = {
    ...calls,
    run: (sent, respond) => calls.run({ ...sent, ...observeCalls(sent, hooks) }, respond),
  }
  const timeoutMs = Math.max(config.list_timeout_ms, request.startTimeoutMs(server))
  const parts = { calls: observed, headers: ownHeaders, timeoutMs }
  const link = await openLink(server, session.client, parts)
  if (session.logLevel !== undefined && capabilityOf(link, 'logging') !== undefined) {
    const message = ownMessage(request, 'logging/setLevel', session.logLevel)
    await replyTo(calls, serverRequest({ ...request, headers: ownHeaders }, link, message))
  }
  return link
}

/** Runs the hooks of the request and then `hooks`. */
function observeCalls(sent: ServerRequest, hooks: CallHooks): CallHooks {
  return {
    onCall(call) {
      sent.onCall?.(call)
      hooks.onCall?.(call)
    },
    onJudged(call) {
      sent.onJudged?.(call)
      hooks.onJudged?.(call)
    },
  }
}

/** The request to a server for `message`, which has the server's own names. */
export function serverRequest(
  request: ClientRequest,
  link: ServerLink,
  message: JsonObject,
): TranslatedRequest {
  const { session, headers } = request
  const { method } = message
  return {
    server: link.server,
    method: 'POST',
    ...requestTo(link, session.client, message, headers),
    translation: translationOf(request, link, typeof method === 'string' ? method : undefined),
  }
}

/** Translates a server's messages for the client; the gateway responds to requests that the client cannot get. */
export function translationOf(
  { session, calls, ownHeaders, config }: ClientRequest,
  link: ServerLink,
  method: string | undefined,
): Translation {
  return translationFrom(link, session, method, async (id, asked) => {
    const response: JsonObject = { ...responseWithoutClient(id, asked) }
    const sent = requestTo(link, session.client, response, ownHeaders)
    await replyTo(calls, { server: link.server, method: 'POST', ...sent }, config.list_timeout_ms)
  })
}

/** A request of the gateway's own, in the client's revision. */
export function ownMessage({ session }: ClientRequest, method: string, params: JsonObject = {}): JsonObject {
  const { client } = session
  const meta = isStateless(client.revision) ? { _meta: metaOfClient(client) } : {}
  return { jsonrpc: '2.0', id: session.nextOwnId(), method, params: { ...params, ...meta } }
}

/** Sends a request of the gateway's own within the time limit. Rejects with `ServerUnavailable` without a link. */
export async function ask(
  request: ClientRequest,
  server: string,
  message: JsonObject,
  hooks?: CallHooks,
): Promise<Reply> {
  const { calls, ownHeaders, config } = request
  return withLink(request, server, hooks, (link) => {
    const { translation, ...sent } = serverRequest({ ...request, headers: ownHeaders }, link, message)
    const asWritten: Translation = {
      ...translation,
      // The gateway reads the untranslated response, which tells how long a list may be kept.
      response: (response) => response,
      // The client does not get this stream.
      async message(sent) {
        const shown = await translation.message(sent)
        if (shown !== undefined) request.session.keep(shown)
        return undefined
      },
    }
    return replyTo(calls, { ...sent, translation: asWritten, ...hooks }, config.list_timeout_ms)
  })
}

/** Runs `use` with the server's link, and once more with a new one if the server responds that the session has ended. */
export async function withLink<T extends { readonly status: number }>(
  request: ClientRequest,
  server: string,
  hooks: CallHooks | undefined,
  use: (link: ServerLink) => Promise<T>,
): Promise<T> {
  const open = () => linkTo(request, server, hooks)
  return inSession(open, (link) => request.session.dropLink(link), use)
}
