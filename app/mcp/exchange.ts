// The state of one HTTP exchange over MCP, from the reading of its request to its response.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Call,
  type ClientForms,
  type Credential,
  clientForms,
  type MaybePromise,
  type McpFacts,
  mcpFacts,
  slot,
  type Token,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'
import type { Message } from './message.js'
import { metaOf, revisionIn } from './meta.js'
import { isStateless, META_CLIENT_CAPABILITIES, type ProtocolError, type RequestId } from './protocol.js'
import type { Fields } from './rpc-response.js'
import type { InputReceivers } from './servers.js'
import { type BoundTask, clientTaskId, type SessionOfRequest } from './session-binding.js'

interface ResponseFacts {
  /** The id of the response, if it is on the stream of another request. */
  rpcId?: RequestId
  revision?: string
  sessionId?: string
  taskId?: string
}

/** Translates what the server sends into what the client gets and the record describes. */
export interface Translation {
  /** The client's revision, which records name. */
  readonly revision: string
  /** Whether the client is of a revision without sessions: it resumes no stream, and cancels a request by leaving. */
  readonly isClientStateless: boolean
  /** The response to the request. */
  response(response: Fields): Fields
  /** The server's request or notification; undefined if the client does not get it. */
  message(message: Fields): MaybePromise<Fields | undefined>
}

/** The state of an exchange before its body is read. */
export interface ExchangeHead {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly headers: IncomingHttpHeaders
  /** The target's name, decoded. */
  readonly server: string
  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  readonly upstream: () => URL
  /** The gateway's own credential for the upstream. Rejects with `Refusal` (`BROKER_UNAVAILABLE`). */
  readonly credential?: (() => Promise<Credential | undefined>) | undefined
  /** A service of the stages in force. */
  readonly service?: (<T>(service: Token<T>) => T | undefined) | undefined
  /** Set if server and client speak different revisions, or if the client uses several servers as one. */
  readonly translation?: Translation | undefined
  /** Whether the message came without HTTP headers of the protocol, which then need not repeat it. */
  readonly isHeaderless?: boolean | undefined
  /** Whether the endpoint offers only revisions with a handshake. */
  readonly isHandshakeOnly?: boolean | undefined
  readonly inputFor?: InputReceivers | undefined
  /** How the client can be asked, if it uses several servers as one; else the message or its session says so. */
  readonly modes?: ElicitationModes | undefined
  /** Set if the gateway repeats a call. */
  readonly elicited?: ElicitationResponse | undefined
  /** Names the connection of an MCP server in this process; as in a session, each request id is used once. */
  readonly connection?: string | undefined
  /** The id of the client's session with several servers, in which each of its request ids is used once. */
  readonly clientSession?: string | undefined
  /** The client's id of the request, if the message has another for the server. */
  readonly clientId?: RequestId | undefined
}

export interface McpExchange extends ExchangeHead {
  /** Those that have a meaning for the message, once it is known. */
  headers: IncomingHttpHeaders
  /** Set once the id of the session is opened; `headers` then have the server's own. */
  session?: SessionOfRequest | undefined
  /** The client's id of the request, if the server gets it by another: an id belongs to one hop. */
  clientId?: RequestId | undefined
  /** The response of the person at the client. */
  elicited?: ElicitationResponse | undefined
  /** The tasks that the message names. */
  tasks: readonly BoundTask[]
  /** Known once the body was read, with the server's own task ids. */
  message: Message | undefined
  /** The JSON of `message`, if the gateway has written it. */
  text?: string
  /** The client's id of the request, even if its message is not valid. */
  id: RequestId | undefined
  /** Set if the request breaks the protocol. */
  protocolError: ProtocolError | undefined
  /** Set if the session is another caller's: on HTTP 404 the client begins a new one. */
  isForeignSession: boolean
  /** Facts from the response for the record. */
  readonly learned: ResponseFacts
  /** Set if the client has cancelled the request. */
  isCancelled?: boolean
}

export const mcpExchange = slot<McpExchange>('svc-sdk/mcpExchange')

/** Makes the exchange and its facts available to the stages of `call`. */
export function attachExchange(call: Call, exchange: McpExchange): void {
  call.set(mcpExchange, exchange)
  call.set(mcpFacts, () => factsOf(exchange))
  call.set(clientForms, () => formsOf(exchange))
}

function formsOf(exchange: McpExchange): ClientForms {
  const { confirmation, escalationId, opened } = exchange.elicited ?? {}
  return {
    isOffered: modesOf(exchange).form,
    ...(confirmation === undefined ? {} : { reply: confirmation }),
    ...(escalationId === undefined ? {} : { asked: escalationId }),
    ...(opened === false && escalationId !== undefined ? { declined: escalationId } : {}),
  }
}

/** Revisions are dates; the header may be any text. */
const revisionForm = /^\d{4}-\d{2}-\d{2}$/

function factsOf(exchange: McpExchange): McpFacts {
  const { headers, message, session, tasks, learned, translation } = exchange
  const revision = learned.revision ?? translation?.revision ?? revisionOf(exchange)
  const [task] = tasks
  return {
    revision: revision !== undefined && revisionForm.test(revision) ? revision : undefined,
    sessionId: learned.sessionId ?? session?.token ?? textIn(headers[SESSION_ID_HEADER]),
    serverSessionId: session?.sealed?.isOwn === false ? session.sealed.id : undefined,
    taskId: learned.taskId ?? (task === undefined ? undefined : clientTaskId(task)),
    rpcId: learned.rpcId ?? (message?.type === 'request' ? exchange.id : undefined),
  }
}

function textIn(header: IncomingHttpHeaders[string]): string | undefined {
  return typeof header === 'string' ? header : undefined
}

const mayBeEmpty = [
  ...['accept', 'idempotency-key', 'x-idempotency-key', 'mcp-method', 'mcp-name'],
  ...[LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER],
]

/** The headers without empty ones, which say nothing: some clients write an absent value so. */
export function withoutEmptyHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  let kept = headers
  for (const name of mayBeEmpty) {
    if (kept[name] === '') kept = Object.fromEntries(Object.entries(kept).filter(([other]) => other !== name))
  }
  return kept
}

export function openExchange(head: ExchangeHead): McpExchange {
  return {
    method: head.method,
    headers: head.headers,
    server: head.server,
    upstream: head.upstream,
    credential: head.credential,
    service: head.service,
    translation: head.translation,
    isHeaderless: head.isHeaderless,
    isHandshakeOnly: head.isHandshakeOnly,
    inputFor: head.inputFor,
    modes: head.modes,
    elicited: head.elicited,
    connection: head.connection,
    clientSession: head.clientSession,
    clientId: head.clientId,
    session: undefined,
    learned: {},
    tasks: [],
    message: undefined,
    id: undefined,
    protocolError: undefined,
    isForeignSession: false,
  }
}

/**
 * Whether a disconnect ends the request. It always ends a GET. From 2026-07-28 on a client cancels a request by closing
 * its stream; in older revisions a disconnect has no meaning.
 */
export function disconnectCancels(exchange: McpExchange): boolean {
  return exchange.method === 'GET' || isClientStateless(exchange)
}

/** Whether the client is of a revision without sessions, whatever its server is. */
export function isClientStateless(exchange: McpExchange): boolean {
  return exchange.translation?.isClientStateless ?? isStatelessExchange(exchange)
}

/** Whether the request is of a revision without sessions. */
export function isStatelessExchange(exchange: McpExchange): boolean {
  const revision = revisionOf(exchange)
  return revision !== undefined && isStateless(revision)
}

/** The event after which a GET resumes a stream. From 2026-07-28 on the header has no meaning. */
export function lastEventIdOf(exchange: McpExchange): IncomingHttpHeaders[string] {
  if (isStatelessExchange(exchange)) return undefined
  return exchange.headers[LAST_EVENT_ID_HEADER]
}

/** The revision that the request names, in its header or its `_meta`. */
export function revisionOf({ headers, message }: McpExchange): string | undefined {
  const header = headers[PROTOCOL_VERSION_HEADER]
  if (typeof header === 'string') return header
  return message === undefined || message.type === 'response' ? undefined : revisionIn(message.params)
}

/** How the person at the client can be asked during the request. */
export function modesOf(exchange: McpExchange): ElicitationModes {
  const { message, modes, session } = exchange
  if (message?.type !== 'request') return noModes
  if (modes !== undefined) return modes
  const revision = revisionOf(exchange) ?? ''
  if (isStatelessExchange(exchange)) {
    return declaredModes(metaOf(message.params)[META_CLIENT_CAPABILITIES], revision)
  }
  // The gateway sends the request on the stream of the call.
  if (!takesEvents(exchange)) return noModes
  const { modes: tag = '' } = session?.sealed ?? {}
  return since(revision, { form: tag.includes('f'), url: tag.includes('u') })
}

/** Whether a response to the client may be a stream. A client that sends lines has no `Accept`, and reads every message. */
export function takesEvents({
  headers,
  isHeaderless,
}: Pick<McpExchange, 'headers' | 'isHeaderless'>): boolean {
  return (
    isHeaderless === true || headers.accept?.split(',').map(mediaType).includes(EVENT_STREAM_TYPE) === true
  )
}

// The forms of elicitation that a client has declared: in `initialize`, or from 2026-07-28 on in each request.

export type Confirmation = NonNullable<ClientForms['reply']>

/** The person's responses, for the gateway that repeats the call or gets it again from the client. */
export interface ElicitationResponse {
  /** The escalation of the call, whose approval is used and no other. */
  readonly escalationId?: string
  /** Whether the person agreed to open its page, which is not an approval. */
  readonly opened?: boolean
  readonly confirmation?: Confirmation
}

export interface ElicitationModes {
  readonly form: boolean
  readonly url: boolean
}

export const noModes: ElicitationModes = { form: false, url: false }

/** The revisions that introduced the modes; requests without an `initialize` that declares them have neither. */
const formSince = '2025-06-18'
const urlSince = '2025-11-25'

/** The modes that capabilities declare: an empty `elicitation` stands for forms (2025-11-25, "Elicitation", "Capabilities"). */
export function declaredModes(capabilities: unknown, revision: string): ElicitationModes {
  const declared = isJsonObject(capabilities) ? capabilities['elicitation'] : undefined
  if (!isJsonObject(declared)) return noModes
  const form = isJsonObject(declared['form']) || declared['url'] === undefined
  return since(revision, { form, url: isJsonObject(declared['url']) })
}

export function since(revision: string, { form, url }: ElicitationModes): ElicitationModes {
  return { form: form && revision >= formSince, url: url && revision >= urlSince }
}

/** Returns the modes as a part of the id of a session, where every gateway of a deployment reads them. */
export function modesTag({ form, url }: ElicitationModes): string {
  return `${form ? 'f' : ''}${url ? 'u' : ''}`
}
