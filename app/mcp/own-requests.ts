// Sends the gateway's own requests to MCP servers, and reads the responses.
import { type Clock, type Credential, isRefusal, type ReceivedDefinition } from '@svc/core'
import { SseOverflow } from '@svc/core/http'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { CachedReads } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { isUpstreamError } from '../upstream/response.js'
import { sendWith } from '../upstream/send.js'
import {
  type ClientFacts,
  performHandshake,
  type SendOwn,
  type ServerReply,
  type ServerSession,
  sessionHeaders,
} from './handshake.js'
import { listEntries } from './lists.js'
import { isRequestId } from './message.js'
import { HANDSHAKE_REVISION, type Implementation } from './protocol.js'
import { responseWithoutClient } from './rpc-error.js'
import { type Fields, isResponse, ProtocolViolation } from './rpc-response.js'
import { type McpRequest, type McpResponse, type McpServers, messageResponse } from './servers.js'
import { resourceSubscriptions } from './subject.js'

/** Parts of a client that sends the gateway's own requests. */
export interface OwnRequestOptions {
  readonly servers: McpServers
  /** The name that servers see. */
  readonly client: Implementation
  /** Time limit for a handshake or a probe, in milliseconds. */
  readonly timeoutMs: number
  /** Size limit for a response. */
  readonly maxBytes: number
}

/** Sends to one server, with a credential. Rejects as the dispatcher does. */
export type Send = (head: Pick<McpRequest, 'method' | 'headers' | 'message'>) => Promise<McpResponse>

/** Sends the gateway's own requests, which are not counted as sends of a call. */
export function createSend(
  { servers }: Pick<OwnRequestOptions, 'servers'>,
  upstream: URL,
  credential: Credential | undefined,
  sending: Pick<McpRequest, 'signal' | 'onBehalfOf'>,
): Send {
  const uncounted = (): void => undefined
  const send = (one: McpRequest) => servers.send(upstream, one, uncounted)
  return (head) => sendWith(credential, { ...head, ...sending }, send, uncounted)
}

/** Ends a session. A server need not allow it (405); the session then expires. Rejects as `send` does. */
export async function endSession(send: Send, session: ServerSession): Promise<void> {
  if (session.sessionId === undefined) return
  await (await send({ method: 'DELETE', headers: sessionHeaders(session) })).discard()
}

export interface OwnReply extends ServerReply {
  /** Why the response cannot be read: it is outside the protocol, or too large. */
  readonly error?: Error
}

/** Sends the gateway's own messages by `send`, and reads the response to each. Rejects as `send` does. */
export function createSendOwn(send: Send, maxBytes: number): SendOwn<OwnReply> {
  return async (message, headers) => {
    const response = await send({ method: 'POST', headers, message: { jsonrpc: '2.0', ...message } })
    const { [SESSION_ID_HEADER]: id } = response.headers
    const sessionId = typeof id === 'string' ? id : undefined
    const head = { status: response.status, sessionId }
    const inSession = sessionId === undefined ? headers : { ...headers, [SESSION_ID_HEADER]: sessionId }
    try {
      if (message.id === undefined) return head
      const respond = createRespond(send, inSession)
      return { ...head, result: (await responseIn(response, maxBytes, respond))?.['result'] }
    } catch (error) {
      if (error instanceof ProtocolViolation || error instanceof SseOverflow) return { ...head, error }
      if (isRefusal(error) && error.code === 'PAYLOAD_TOO_LARGE') return { ...head, error }
      throw error
    } finally {
      await response.discard()
    }
  }
}

/**
 * The definitions that a server lists for the gateway itself, for callers who have listed none. One reading serves all of them
 * for a while; a server that cannot be read has none.
 */
export class OwnLists {
  readonly #options: OwnRequestOptions
  readonly #reads: CachedReads<readonly ReceivedDefinition[]>

  constructor(options: OwnRequestOptions, clock: Clock) {
    this.#options = options
    this.#reads = new CachedReads(clock, maxOwnLists)
  }

  of(
    upstream: URL,
    credential: (() => Promise<Credential | undefined>) | undefined,
    kind: 'tool' | 'prompt',
  ): Promise<readonly ReceivedDefinition[]> {
    const read = async () => this.#read(upstream, await credential?.(), kind)
    return this.#reads.of(`${kind} ${upstream.href}`, { read, keptMs: () => ownListMs })
  }

  async #read(
    upstream: URL,
    credential: Credential | undefined,
    kind: 'tool' | 'prompt',
  ): Promise<ReceivedDefinition[]> {
    const { client, maxBytes, timeoutMs } = this.#options
    const signal = AbortSignal.timeout(timeoutMs)
    const send = createSend(this.#options, upstream, credential, { signal })
    const [sendOwn, facts] = [createSendOwn(send, maxBytes), ownClientFacts(client)]
    try {
      const { session } = await performHandshake(sendOwn, facts)
      if (session === undefined) return []
      const entries = await listEntries(`${kind}s`, sendOwn, session, facts)
      await endSession(send, session)
      return entries.flatMap((value) =>
        typeof value['name'] === 'string' ? [{ kind, name: value['name'], value }] : [],
      )
    } catch (error) {
      // The call is judged by what is known, and refused if that is not enough.
      if (isUpstreamError(error) || isRefusal(error) || signal.aborted) return []
      throw error
    }
  }
}

const maxOwnLists = 1_000
/** Milliseconds for which a list of the gateway's own is used. */
const ownListMs = 10_000

/** The gateway itself as a client. */
export function ownClientFacts(clientInfo: Implementation): ClientFacts {
  return { revision: HANDSHAKE_REVISION, capabilities: {}, clientInfo }
}

/** Sends a response to a server's request. Rejects as the dispatcher does. */
export type Respond = (response: JsonObject) => Promise<void>

/** Responds by `send` with the headers of the session. */
export function createRespond(send: Send, headers: McpRequest['headers']): Respond {
  return async (message) => (await send({ method: 'POST', headers, message })).discard()
}

/**
 * Undefined if there is none. `respond` gets the response to each request that the server sends before. Rejects with
 * `ProtocolViolation`, `SseOverflow`, `Refusal` or `UpstreamError`.
 */
export async function responseIn(
  response: McpResponse,
  maxBytes: number,
  respond: Respond,
): Promise<Fields | undefined> {
  if (response.form === 'other') return undefined
  if (response.form !== 'events') return (await response.message(maxBytes)).message
  for await (const { message } of response.events({ maxBytes })) {
    if (message === undefined) continue
    if (isResponse(message)) return message
    const { id, method } = message
    if (isRequestId(id)) await respond(responseWithoutClient(id, method))
  }
  return undefined
}

/** Requests for subscriptions that a server gets at a time. */
const subscribingAtOnce = 16

/**
 * Sends the URIs of one `subscriptions/listen` to a server with sessions, which knows `resources/subscribe` alone. Responds with
 * the indices of the URIs that the server accepted (`{ accepted: number[] }`), or as the server does if it refuses the session
 * or the credential.
 */
export function subscribingServers(servers: McpServers, maxBytes: number): McpServers {
  return {
    async send(target, request, onSent) {
      const { id, params } = request.message ?? {}
      const uris = resourceSubscriptions(isJsonObject(params) ? params : {})
      const accepted: number[] = []
      const send: Send = (head) => servers.send(target, { ...request, text: undefined, ...head }, onSent)
      const respond = createRespond(send, request.headers)
      const subscribe = async (index: number): Promise<McpResponse> => {
        const message = {
          jsonrpc: '2.0',
          id: `${id}.${index}`,
          method: 'resources/subscribe',
          params: { uri: uris[index] ?? '' },
        }
        const response = await send({ method: 'POST', headers: { ...request.headers }, message })
        if (response.status >= 400) return response
        const { result } = (await responseIn(response, maxBytes, respond)) ?? {}
        if (result !== undefined) accepted.push(index)
        return response
      }
      const first = await subscribe(0)
      if (first.status >= 400) return first
      await first.discard()
      let next = 1
      const subscribeToNext = async (): Promise<void> => {
        while (next < uris.length) await (await subscribe(next++)).discard()
      }
      await Promise.all(Array.from({ length: subscribingAtOnce }, subscribeToNext))
      return messageResponse({ message: { jsonrpc: '2.0', id, result: { accepted } } })
    },
  }
}
