// One request of a client of several servers, and the requests to servers on its behalf.
import type { IncomingHttpHeaders } from 'node:http'
import { after, type Clock, type RequestedResource, requestedResource } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { ClientExchange } from '../http/client-exchange.js'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import {
  declaredModes,
  type ElicitationModes,
  noModes,
  type Translation,
  takesEvents,
} from '../mcp/exchange.js'
import { type ClientFacts, capabilityOf, inSession, metaOfClient, sessionHeaders } from '../mcp/handshake.js'
import { PARAM_PREFIX } from '../mcp/header-validation.js'
import { isRequestId, type Message } from '../mcp/message.js'
import { isStateless, type RequestId } from '../mcp/protocol.js'
import { requestFor, responseFrom } from '../mcp/revision-translation.js'
import { responseWithoutClient } from '../mcp/rpc-error.js'
import type { FederationConfig } from '../policy/federation-config.js'
import { withClientIds } from './client-message.js'
import { askedIn, hasInputRounds } from './input-rounds.js'
import {
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

// Translates a client's message to a request in the server's revision, and the server's response back.

/** Headers of the client's exchange with the gateway, which are not passed on. */
const exchangeHeaders = [
  'content-length',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  'mcp-method',
  'mcp-name',
  LAST_EVENT_ID_HEADER,
]
/** Headers that name one call. */
const callHeaders = [
  'idempotency-key',
  'x-idempotency-key',
  'x-escalation-id',
  'x-escalation-wait',
  'x-escalation-emergency',
]

/** The headers of the gateway's own requests on behalf of a client. */
export function headersOfOwnRequests(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  // The gateway itself reads the responses, whatever the client accepts.
  return withoutParamHeaders(omitFields(headers, [...exchangeHeaders, ...callHeaders, 'accept']))
}

/** The message for the server, and its headers. `message` has the server's own names. */
export function requestTo(
  link: ServerLink,
  client: ClientFacts,
  message: JsonObject,
  clientHeaders: IncomingHttpHeaders,
): { readonly headers: IncomingHttpHeaders; readonly message: JsonObject } {
  const kept = omitFields(clientHeaders, exchangeHeaders)
  // A client of older revisions has them only as leftovers.
  const hasParamHeaders = link.isStateless && isStateless(client.revision)
  const headers = { ...(hasParamHeaders ? kept : withoutParamHeaders(kept)), ...sessionHeaders(link) }
  return {
    headers,
    message: requestFor(link, isStateless(client.revision), message, () => metaOfClient(client)),
  }
}

/**
 * Translates the server's messages for the client; `method` is that of the request. `respond` responds to the server's
 * requests if the client gets none.
 */
export function translationFrom(
  link: ServerLink,
  session: FederationSession,
  method: string | undefined,
  respond: (id: RequestId, method: unknown) => Promise<void>,
): Translation {
  const { client, lists, shared } = session
  const isClientStateless = isStateless(client.revision)
  const keepsAsked = hasInputRounds(session)
  return {
    isClientStateless,
    response: (response) =>
      keepsAsked && askedIn(response) !== undefined
        ? response
        : responseFrom(link, isClientStateless, response, method),
    message(message) {
      const { method: sent, id } = message
      // A client of 2026-07-28 is sent no requests.
      if (id !== undefined && isClientStateless && !link.isStateless)
        return isRequestId(id) ? respond(id, sent).then(() => undefined) : undefined
      const kinds = id === undefined ? listsChangedBy(String(sent)) : []
      if (kinds.length > 0) lists.changed(link.server, kinds)
      // The other gateways learn of the change first, so that none serves an older list.
      const told = kinds.length > 0 ? shared?.changed(link.server) : undefined
      return after(told, () => withClientIds(link.server, message))
    },
  }
}

function withoutParamHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return omitFields(
    headers,
    Object.keys(headers).filter((name) => name.startsWith(PARAM_PREFIX)),
  )
}

function omitFields<V>(fields: Readonly<Record<string, V>>, names: readonly string[]): Record<string, V> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

// The calls of servers for one request of a client: their challenges name the endpoint that the client uses, they are judged by
// what it can show, and their outcomes tell which servers respond.

interface Client {
  readonly exchange: ClientExchange
  readonly used: RequestedResource
  readonly session: FederationSession
  readonly health: ServerHealth
}

export function clientCalls(calls: ServerCalls, client: Client): ServerCalls {
  const { used, session, health } = client
  const modes = modesOf(client)
  return {
    ...calls,
    run: (request, respond) =>
      calls.run(
        {
          ...request,
          modes,
          onCall(call) {
            call.set(requestedResource, used)
            request.onCall?.(call)
          },
        },
        (call, outcome, encoding) => {
          health.observe(request.server, outcome)
          if (outcome.kind === 'completed') session.noteResponse(request.server)
          return respond(call, outcome, encoding)
        },
      ),
  }
}

function modesOf({ session, exchange: { headers, http } }: Client): ElicitationModes {
  const { capabilities, revision } = session.client
  const mayAsk = isStateless(revision) || takesEvents({ headers, isHeaderless: http === undefined })
  return mayAsk ? declaredModes(capabilities, revision) : noModes
}
