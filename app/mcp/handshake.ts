// The gateway as a client of an MCP server, over any transport: the handshakes of both eras of the protocol, and requests in
// the session that a handshake begins. The gateway acts for itself or for one client.

import type { Clock, MaybePromise } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { isVersion } from '@svc/core/match'
import { CachedReads } from '@svc/core/store'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { clientMeta, metaOf } from './meta.js'
import {
  gatewayImplementation,
  HANDSHAKE_REVISION,
  isImplementation,
  isStateless,
  MAX_NAME,
  META_SERVER_INFO,
  STATELESS_REVISION,
  UI_EXTENSION,
} from './protocol.js'
import type { Fields } from './rpc-response.js'

const maxVersion = 256

/** The client's description of itself, in `initialize` or in each request. */
export interface ClientFacts {
  readonly revision: string
  readonly capabilities: JsonValue
  readonly clientInfo: JsonValue
}

/** The session and the revision in which a server gets requests. */
export interface ServerSession {
  readonly revision: string
  readonly isStateless: boolean
  /** Undefined if the server gave none. */
  readonly sessionId: string | undefined
}

/** The server's description of itself. */
export interface ServerDescription {
  readonly capabilities: Fields
  readonly serverInfo: Fields
  readonly instructions?: string
}

export interface ServerReply {
  readonly status: number
  /** The id of the session that the response begins. */
  readonly sessionId: string | undefined
  readonly result?: unknown
}

/** A message of the gateway's own; a notification has no id. */
export interface OwnMessage {
  readonly id?: string
  readonly method: string
  readonly params?: JsonObject
}

/** Sends a message to one server. The reply to a notification is not used. */
export type SendOwn<Reply> = (message: OwnMessage, headers: Record<string, string>) => Promise<Reply>

export interface Handshake<Reply> {
  /** The last reply. */
  readonly reply: Reply
  /** Undefined if the server accepted neither form. */
  readonly session?: ServerSession & ServerDescription
}

/**
 * Tries the form of the client's own era first, so that the client can use all of the server's features. `announces` tells
 * whether `notifications/initialized` is sent. Rejects as `send` does.
 */
export async function performHandshake<Reply extends ServerReply>(
  send: SendOwn<Reply>,
  client: ClientFacts,
  announces = true,
): Promise<Handshake<Reply>> {
  const [first, second] = isStateless(client.revision) ? [discover, initialize] : [initialize, discover]
  const accepted = await first(send, client)
  const found =
    accepted.session === undefined && isOtherEra(accepted.reply) ? await second(send, client) : accepted
  const { session } = found
  if (session !== undefined && !session.isStateless && announces)
    await send({ method: 'notifications/initialized' }, sessionHeaders(session))
  return found
}

/** Whether the status of a failed handshake may mean that the server is of the other era. */
export function isOtherEra({ status }: Pick<ServerReply, 'status'>): boolean {
  return status !== 401 && status !== 403 && status < 500
}

async function initialize<Reply extends ServerReply>(
  send: SendOwn<Reply>,
  { revision: own, capabilities, clientInfo }: ClientFacts,
): Promise<Handshake<Reply>> {
  const isSame = !isStateless(own)
  const params = {
    protocolVersion: isSame ? own : HANDSHAKE_REVISION,
    capabilities: isSame ? capabilities : passingCapabilities(capabilities),
    // It is optional in requests without a session only.
    clientInfo: isImplementation(clientInfo) ? clientInfo : gatewayImplementation,
  }
  const reply = await send({ id: 'svc-initialize', method: 'initialize', params }, {})
  const result = resultIn(reply)
  if (result === undefined) return { reply }
  const { protocolVersion: revision } = result
  if (typeof revision !== 'string' || revision.length > MAX_NAME || isStateless(revision)) return { reply }
  const { sessionId } = reply
  return { reply, session: { revision, isStateless: false, sessionId, ...describedIn(result) } }
}

/** Asks the server whether it speaks 2026-07-28. Rejects as `send` does. */
export async function discover<Reply extends ServerReply>(
  send: SendOwn<Reply>,
  client: ClientFacts,
): Promise<Handshake<Reply>> {
  const method = 'server/discover'
  const { message, headers } = ownRequest(withoutSession, client, { id: 'svc-discover', method })
  const reply = await send(message, headers)
  const result = resultIn(reply)
  if (result === undefined || !isJsonObject(result['capabilities'])) return { reply }
  const { supportedVersions: supported } = result
  if (Array.isArray(supported) && !supported.includes(STATELESS_REVISION)) return { reply }
  return { reply, session: { ...withoutSession, ...describedIn(result) } }
}

/** The session state for a server of 2026-07-28, which has no sessions. */
export const withoutSession = {
  revision: STATELESS_REVISION,
  isStateless: true,
  sessionId: undefined,
} satisfies ServerSession

function describedIn({ capabilities, instructions, ...result }: Fields): ServerDescription {
  return {
    capabilities: isJsonObject(capabilities) ? capabilities : {},
    serverInfo: serverInfoIn(result),
    ...(typeof instructions === 'string' ? { instructions } : {}),
  }
}

function serverInfoIn(result: Fields): Fields {
  const info = result['serverInfo'] ?? metaOf(result)[META_SERVER_INFO]
  return isJsonObject(info) ? info : {}
}

/** The version in a handshake's result; undefined if it cannot be part of a reference. */
export function serverVersionIn(result: unknown): string | undefined {
  const { version } = isJsonObject(result) ? serverInfoIn(result) : {}
  return typeof version === 'string' && version.length <= maxVersion && isVersion(version)
    ? version
    : undefined
}

/** Whether the results of a method contain `serverInfo`. */
export function hasServerInfo(method: string | null): boolean {
  return method === 'initialize' || method === 'server/discover'
}

export function resultIn({ status, result }: ServerReply): Fields | undefined {
  return status < 400 && isJsonObject(result) ? result : undefined
}

/** The server's description of a capability; undefined if the server does not have it. */
export function capabilityOf({ capabilities }: ServerDescription, name: string): Fields | undefined {
  const capability = capabilities[name]
  return isJsonObject(capability) ? capability : undefined
}

/** The `_meta` that describes the client in a request without a session. */
export function metaOfClient({ revision, capabilities, clientInfo }: ClientFacts): JsonObject {
  return clientMeta(clientInfo, isStateless(revision) ? capabilities : passingCapabilities(capabilities))
}

/** The client's capabilities for what a server asks it. */
export function askableCapabilities(capabilities: JsonValue): JsonObject {
  if (!isJsonObject(capabilities)) return {}
  const { elicitation, sampling, roots } = capabilities
  const all = Object.entries({ elicitation, sampling, roots })
  return Object.fromEntries(all.filter((entry): entry is [string, JsonObject] => isJsonObject(entry[1])))
}

export function isAskable(capabilities: JsonValue): boolean {
  return Object.keys(askableCapabilities(capabilities)).length > 0
}

/** The client's capabilities for a server of the other era: what it asks during a call can be translated. */
export function passingCapabilities(capabilities: JsonValue): JsonObject {
  return { ...askableCapabilities(capabilities), ...appCapabilities(capabilities) }
}

/** The client's capability to show interfaces of tools, which is the same in both eras. */
export function appCapabilities(capabilities: JsonValue): JsonObject {
  const extensions = isJsonObject(capabilities) ? capabilities['extensions'] : undefined
  const ui = isJsonObject(extensions) ? extensions[UI_EXTENSION] : undefined
  return isJsonObject(ui) ? { extensions: { [UI_EXTENSION]: ui } } : {}
}

/** A request in the form of the session's revision, and its headers. */
export function ownRequest(
  session: ServerSession,
  client: ClientFacts,
  { params = {}, ...request }: OwnMessage,
): { readonly message: OwnMessage; readonly headers: Record<string, string> } {
  const sent = session.isStateless ? { ...params, _meta: metaOfClient(client) } : params
  return { message: { ...request, params: sent }, headers: sessionHeaders(session) }
}

export function sessionHeaders({ sessionId, revision }: ServerSession): Record<string, string> {
  const session = sessionId === undefined ? {} : { [SESSION_ID_HEADER]: sessionId }
  return { [PROTOCOL_VERSION_HEADER]: revision, ...session }
}

// Sessions with MCP servers in which the gateway is the client. Each is opened on first use, and callers do not share
// sessions, because a server may keep state in them. On 404 a new session is opened and the request is repeated once.

/** Time after which a server without sessions gets another handshake, in milliseconds. */
const statelessMs = 600_000
/** Sessions beyond it are dropped; their servers end them in their own time. */
const maxSessions = 1000

export interface SessionUse<Session> {
  /** Time for which a failure is not tried again, in milliseconds. */
  readonly failureMs: number
  open(): Promise<Session>
}

export class ServerSessions<Session extends ServerSession> {
  #sessions: CachedReads<Session>
  #listeners = new Set<(session: Session) => void>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#sessions = new CachedReads(clock, maxSessions)
  }

  /** The session of `key`; concurrent callers share one `open`. Rejects as it does. */
  of(key: string, { open, failureMs }: SessionUse<Session>): Promise<Session> {
    const read = async (): Promise<Session> => {
      const session = await open()
      for (const listener of this.#listeners) listener(session)
      return session
    }
    const keptMs = ({ isStateless }: Session): number =>
      isStateless ? statelessMs : Number.POSITIVE_INFINITY
    return this.#sessions.of(key, { read, keptMs, failureMs })
  }

  /** Removes a session that the server has ended. */
  drop(key: string, session: Session): void {
    this.#sessions.drop(key, session)
  }

  /** Runs `listener` for each session that opens from now on. Returns a function that removes it. */
  onOpen(listener: (session: Session) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The open sessions, without those that are being opened. */
  current(): Session[] {
    return this.#sessions.current()
  }

  /** The open sessions, including those that are being opened and do not fail. */
  open(): Promise<Session[]> {
    return this.#sessions.all()
  }
}

/**
 * Whether a response says that the server no longer has the session, and so has not acted on the request: by 404, or as
 * servers do that were written before the protocol said so (400, or the error -32001, about a session).
 */
export function isSessionLost(status: number, message: Fields | undefined): boolean {
  if (status === 404) return true
  const error = message?.['error']
  if (!isJsonObject(error)) return false
  const { code, message: text } = error
  const isOfSession = typeof text === 'string' && lostSession.test(text)
  return isOfSession && (status === 400 || code === SESSION_NOT_FOUND)
}

const SESSION_NOT_FOUND = -32001
/** The words of SDKs and their examples; the error of a tool about a session of its own has others, and has run. */
const lostSession =
  /^(?:bad request: |not found: )?(?:session(?: id)? (?:not found|(?:has )?expired|has been terminated|missing|required)\b|(?:no valid|invalid|missing|invalid or missing) session\b|server not initiali[sz]ed|mcp-session-id header is required)/i

/**
 * Runs `use` in a session, and once more in a new one if the server no longer has it. `drop` gets the session and the
 * response.
 */
export async function inSession<
  Session extends Pick<ServerSession, 'sessionId'>,
  Reply extends { readonly status: number; readonly isSessionLost?: boolean },
>(
  open: () => Promise<Session>,
  drop: (session: Session, reply: Reply) => MaybePromise<void>,
  use: (session: Session) => Promise<Reply>,
): Promise<Reply> {
  const session = await open()
  const reply = await use(session)
  const { status, isSessionLost: isLost = status === 404 } = reply
  if (!isLost || session.sessionId === undefined) return reply
  await drop(session, reply)
  return use(await open())
}
