// One request of a client of several servers, and the requests to servers on its behalf.
import type { IncomingHttpHeaders } from 'node:http'
import { type Call, type Clock, requestReference } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { Translation } from '../mcp/exchange.js'
import { capabilityOf, metaOfClient, sessionHeaders } from '../mcp/handshake.js'
import type { Message } from '../mcp/message.js'
import { isStateless } from '../mcp/protocol.js'
import { responseWithoutClient } from '../mcp/rpc-error.js'
import { inSession } from '../mcp/server-sessions.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { FederationConfig } from '../policy/federation-config.js'
import { type Reply, replyTo, type ServerCalls, type ServerRequest } from './server-calls.js'
import { openLink, type ServerLink, ServerUnavailable } from './server-link.js'
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

/** The result of a server, or the error that makes it unavailable. */
export type ServerResult<T> =
  | { readonly server: string; readonly value: T }
  | { readonly server: string; readonly unavailable: ServerUnavailable }

/**
 * Runs `act` at the same time for the servers that the caller may use, and returns the results in their order. If these
 * servers are not known, one call goes first: once it is judged, its rules tell which other servers the caller may use, so
 * that no denied call is recorded which the caller did not make.
 */
export async function onUsableServers<T>(
  request: ClientRequest,
  act: (server: string, hooks: CallHooks) => Promise<T>,
): Promise<ServerResult<T>[]> {
  const { servers, session, scope, config, clock } = request
  const known = session.usable
  const isKnown = known !== undefined && known.scope === scope && clock.monotonic() < known.until
  const first = servers.find((server) => known?.servers.includes(server)) ?? servers[0]
  if (first === undefined) return []
  const results = isKnown
    ? servers
        .filter((server) => known.servers.includes(server))
        .map((server) => serverResultOf(server, act(server, {})))
    : await onServersAllowedWith(first, servers, act)
  const found = (await Promise.all(results)).filter((result) => !isHidden(result))
  for (const result of found)
    if ('unavailable' in result) request.logMissing(result.server, result.unavailable.message)
  if (!isKnown) {
    const until = clock.monotonic() + config.list_ttl_ms
    session.usable = { servers: found.map(({ server }) => server), scope, until }
  }
  return found
}

/** Resolves once the call at `first` is judged, with the running results of the servers that its rules allow. */
async function onServersAllowedWith<T>(
  first: string,
  servers: readonly string[],
  act: (server: string, hooks: CallHooks) => Promise<T>,
): Promise<Promise<ServerResult<T>>[]> {
  const { promise: judged, resolve } = promiseOf<Call | undefined>()
  let call: Call | undefined
  const onCall = (begun: Call): void => {
    call ??= begun
  }
  const leading = serverResultOf(first, act(first, { onCall, onJudged: resolve }))
  leading.then(
    () => resolve(call),
    () => resolve(call),
  )
  const rules = await judged
  return servers
    .filter((server) => server === first || rules === undefined || mayUseServer(rules, server))
    .map((server) => (server === first ? leading : serverResultOf(server, act(server, {}))))
}

function promiseOf<T>(): { readonly promise: Promise<T>; resolve(value: T): void } {
  let resolve: (value: T) => void = () => undefined
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

/** Rejects with errors that are not `ServerUnavailable`. */
export async function serverResultOf<T>(server: string, acting: Promise<T>): Promise<ServerResult<T>> {
  try {
    return { server, value: await acting }
  } catch (error) {
    if (error instanceof ServerUnavailable) return { server, unavailable: error }
    throw error
  }
}

function mayUseServer(call: Call, server: string): boolean {
  const reference = requestReference({ kind: 'protocol', server, name: '', version: UNVERSIONED })
  return call.mayRequest(reference, 'protocol')
}

/** A server that the caller may not use is not reported as unavailable. */
function isHidden<T>(result: ServerResult<T>): boolean {
  if ('value' in result) return false
  const { outcome } = result.unavailable.reply
  return outcome.kind === 'denied' && outcome.code === 'TOOL_NOT_ALLOWED'
}
