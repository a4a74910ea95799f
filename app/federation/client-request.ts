// One request of a client of several servers, and the requests to servers on its behalf.
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock, RequestedResource } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { ClientExchange } from '../http/client-exchange.js'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { noModes, type Translation, takesEvents } from '../mcp/exchange.js'
import { capabilityOf, inSession, metaOfClient, sessionHeaders } from '../mcp/handshake.js'
import { PARAM_PREFIX } from '../mcp/headers.js'
import { isRequestId, type Message } from '../mcp/message.js'
import { requestFor, responseFrom } from '../mcp/revision-translation.js'
import { responseWithoutClient } from '../mcp/rpc-error.js'
import type { FederationConfig } from '../policy/federation-config.js'
import { withClientIds } from './client-message.js'
import { askedIn } from './input-rounds.js'
import {
  type CallHooks,
  openLink,
  type Reply,
  replyTo,
  type ServerCalls,
  type ServerHealth,
  type ServerLink,
  type ServerRequest,
} from './server-calls.js'
import { listsChangedBy } from './server-lists.js'
import type { FederationSession } from './session.js'

export interface ClientRequest {
  readonly session: FederationSession
  readonly calls: ServerCalls
  readonly headers: IncomingHttpHeaders
  /** The headers that the gateway's own requests on the client's behalf have. */
  readonly own: OwnHeaders
  /** The servers of the endpoint that the caller's token is for, in the order of the policy. */
  readonly servers: readonly string[]
  readonly config: FederationConfig
  /** The server of the endpoint, if it has one whose names are those of the client, in another era than the client's. */
  readonly only: string | undefined
  /** Time that a server may take to start, in milliseconds. */
  startTimeoutMs(server: string): number
  readonly clock: Clock
  readonly health: ServerHealth
  /** The policy, and a hash of the caller's credentials, on which lists depend. */
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
export async function endLink({ calls, own, config }: ClientRequest, link: ServerLink): Promise<void> {
  const headers = { ...own.headers, ...sessionHeaders(link) }
  const request = { server: link.server, method: 'DELETE', headers, message: null } as const
  await replyTo(calls, request, config.list_timeout_ms)
}

async function openLinkOf(request: ClientRequest, server: string, hooks: CallHooks): Promise<ServerLink> {
  const { session, calls, own, config } = request
  const startMs = request.startTimeoutMs(server)
  const timeoutMs = Math.max(config.list_timeout_ms, startMs)
  // A command refuses what cannot ask its client, and accepts it of a sender that knows both eras.
  const isHandshakeRefused = request.only !== undefined && startMs === 0
  const parts = { calls, hooks, headers: own.headers, timeoutMs, isHandshakeRefused }
  const link = await openLink(server, session.client, parts)
  if (session.logLevel !== undefined && capabilityOf(link, 'logging') !== undefined) {
    const message = ownMessage(request, 'logging/setLevel', session.logLevel)
    await replyTo(calls, ownServerRequest(request, link, message))
  }
  return link
}

/** The request to a server for `message`, which has the server's own names, in the server's revision. */
export function serverRequest(
  request: ClientRequest,
  link: ServerLink,
  message: JsonObject,
): TranslatedRequest {
  const { session } = request
  const { client, isStateless } = session
  const { method } = message
  const isSameEra = link.isStateless === isStateless
  // A client of older revisions has headers of params only as leftovers.
  const hasParamHeaders = isSameEra && isStateless
  return {
    server: link.server,
    method: 'POST',
    clientSession: isStateless ? undefined : session.id,
    headers: {
      ...withoutHeaders(request.headers, exchangeHeaders, hasParamHeaders),
      ...sessionHeaders(link),
    },
    message: isSameEra ? message : requestFor(link, isStateless, message, () => metaOfClient(client)),
    translation: translationOf(request, link, typeof method === 'string' ? method : undefined),
  }
}

/** The same for a message of the gateway's own. */
export function ownServerRequest(
  request: ClientRequest,
  link: ServerLink,
  message: JsonObject,
): TranslatedRequest {
  const own = serverRequest({ ...request, headers: request.own.headers }, link, message)
  return { ...own, clientSession: undefined }
}

/** Sends a response or a notification of the gateway's own, even if the client has left. */
export async function sendToServer(
  request: ClientRequest,
  link: ServerLink,
  message: JsonObject,
): Promise<void> {
  // A disconnect of the client, whose revision the translation names, would end the call.
  const { translation: _, ...sent } = ownServerRequest(request, link, message)
  await replyTo(request.calls, sent, request.config.list_timeout_ms)
}

/**
 * Translates the server's messages for the client; `method` is that of the request. The gateway responds to requests that
 * the client cannot get.
 */
export function translationOf(
  request: ClientRequest,
  link: ServerLink,
  method: string | undefined,
): Translation {
  const { session } = request
  const { client, lists, shared, isStateless: isClientStateless } = session
  const isSameEra = link.isStateless === isClientStateless
  return {
    revision: client.revision,
    isClientStateless,
    response: (response) =>
      isSameEra || (session.hasInputRounds && askedIn(response) !== undefined)
        ? response
        : responseFrom(link, isClientStateless, response, method),
    async message(message) {
      const { method: sent, id } = message
      // A client of 2026-07-28 is sent no requests.
      if (id !== undefined && isClientStateless && !link.isStateless) {
        if (!isRequestId(id)) return undefined
        await sendToServer(request, link, { ...responseWithoutClient(id, sent) })
        return undefined
      }
      const kinds = id === undefined ? listsChangedBy(String(sent)) : []
      if (kinds.length > 0) {
        lists.changed(link.server, kinds)
        // The other gateways learn of the change first, so that none serves an older list.
        await shared?.changed(link.server)
      }
      return withClientIds(link.server, message)
    },
  }
}

/** A request of the gateway's own, in the client's revision. */
export function ownMessage({ session }: ClientRequest, method: string, params: JsonObject = {}): JsonObject {
  const meta = session.isStateless ? { _meta: metaOfClient(session.client) } : {}
  return { jsonrpc: '2.0', id: session.nextOwnId(), method, params: { ...params, ...meta } }
}

/** Sends a request of the gateway's own within the time limit. Rejects with `ServerUnavailable` without a link. */
export async function ask(
  request: ClientRequest,
  server: string,
  message: JsonObject,
  hooks?: CallHooks,
): Promise<Reply> {
  const { calls, config } = request
  return withLink(request, server, hooks, (link) => {
    const { translation, ...sent } = ownServerRequest(request, link, message)
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

/** Headers of the client's exchange with the gateway, which are not passed on. */
const exchangeHeaders: ReadonlySet<string> = new Set([
  'content-length',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  'mcp-method',
  'mcp-name',
  LAST_EVENT_ID_HEADER,
])
/** The same, and those that name one call. The gateway itself reads the responses, whatever the client accepts. */
const callHeaders: ReadonlySet<string> = new Set([
  ...exchangeHeaders,
  'accept',
  'idempotency-key',
  'x-idempotency-key',
  'x-escalation-id',
  'x-escalation-wait',
  'x-escalation-emergency',
])

/** The headers of the gateway's own requests on behalf of a client, with their common trace; most requests need none. */
export class OwnHeaders {
  #given: IncomingHttpHeaders
  #traceparent: string
  #kept: IncomingHttpHeaders | undefined

  constructor(given: IncomingHttpHeaders, traceparent: string) {
    this.#given = given
    this.#traceparent = traceparent
  }

  get headers(): IncomingHttpHeaders {
    this.#kept ??= { ...withoutHeaders(this.#given, callHeaders, false), traceparent: this.#traceparent }
    return this.#kept
  }
}

function withoutHeaders(
  headers: IncomingHttpHeaders,
  names: ReadonlySet<string>,
  hasParamHeaders: boolean,
): IncomingHttpHeaders {
  const kept: IncomingHttpHeaders = {}
  for (const name in headers) {
    if (!names.has(name) && (hasParamHeaders || !name.startsWith(PARAM_PREFIX))) kept[name] = headers[name]
  }
  return kept
}

// The calls of servers for one request of a client: their challenges name the endpoint that the client uses, they are judged by
// what it can show, and their outcomes tell which servers respond.

interface Client {
  readonly exchange: ClientExchange
  readonly used: RequestedResource
  readonly session: FederationSession
  readonly health: ServerHealth
}

export function clientCalls(calls: ServerCalls, { exchange, used, session, health }: Client): ServerCalls {
  const { headers, http } = exchange
  const mayAsk = session.isStateless || takesEvents({ headers, isHeaderless: http === undefined })
  const modes = mayAsk ? session.modes : noModes
  return {
    ...calls,
    run: (request, respond) =>
      calls.run({ ...request, modes, used }, (call, outcome, encoding) => {
        const isCompleted = outcome.kind === 'completed'
        if (!isCompleted || health.hasTroubles) health.observe(request.server, outcome)
        if (isCompleted && session.missing.size > 0) session.noteResponse(request.server)
        return respond(call, outcome, encoding)
      }),
  }
}
