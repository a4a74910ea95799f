// One HTTP exchange over MCP: what is learned when the request is read, and used when it is answered.
import type { IncomingHttpHeaders } from 'node:http'
import { type Call, type Credential, type McpFacts, mcpFacts, slot, type Token } from '@svc/core'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import type { Message, RequestId } from './message.js'
import { isStateless, type ProtocolError } from './protocol.js'
import type { Fields } from './rpc-response.js'
import { type BoundTask, boundSessionId, clientTaskId } from './session-binding.js'
import { revisionIn } from './stateless-request.js'

interface Learned {
  /** Of a response on the stream of another request. */
  rpcId?: RequestId
  revision?: string
  sessionId?: string
  taskId?: string
}

/** Changes what the server sends into what the client gets; the record is of the latter. */
export interface Translation {
  /** Whether the client is of a revision without sessions: it resumes no stream, and cancels a request by leaving. */
  readonly isClientStateless: boolean
  /** The response to the request. */
  response(response: Fields): Fields
  /** A request or notification of the server's; undefined where the client does not get it. */
  message(message: Fields): Fields | undefined
}

/** What is known of an exchange before its body is read. */
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
  /** Where server and client do not speak one revision, or the client uses several servers as one. */
  readonly translation?: Translation | undefined
  /** Whether the message came without HTTP headers of the protocol, which then need not repeat it. */
  readonly isHeaderless?: boolean | undefined
  /** Names the connection of an MCP server in this process, where ids of requests are used once as in a session. */
  readonly connection?: string | undefined
  /** The tag that came with the id of a session; `headers` have the id as the server gave it. */
  readonly sessionTag: string | undefined
}

export interface McpExchange extends ExchangeHead {
  /** Set where the message is one of several in a body, whose responses are no streams. */
  isInBatch?: boolean
  /** The tasks that the message names. */
  tasks: readonly BoundTask[]
  /** Known once the body was read, with the server's own task ids. */
  message: Message | undefined
  /** The JSON of `message`, where the gateway itself has written it. */
  text?: string
  /** The id of the JSON-RPC error in a refusal. */
  id: RequestId | undefined
  /** Set where the request breaks the protocol. */
  protocolError: ProtocolError | undefined
  /** Set where the session is another caller's: on HTTP 404 the client begins a new one. */
  isForeignSession: boolean
  /** What the response says, for the record: of a handshake, and of a tool call that begins a task. */
  readonly learned: Learned
  /** Set where the client has cancelled the request. */
  isCancelled?: boolean
}

export const mcpExchange = slot<McpExchange>('svc-sdk/mcpExchange')

/** For the stages of `call`. */
export function attachExchange(call: Call, exchange: McpExchange): void {
  call.set(mcpExchange, exchange)
  call.set(mcpFacts, () => factsOf(exchange))
}

/** Revisions are dates; the header may be any text. */
const revisionForm = /^\d{4}-\d{2}-\d{2}$/

function factsOf(exchange: McpExchange): McpFacts {
  const { headers, message, sessionTag, tasks, learned } = exchange
  const revision = learned.revision ?? revisionOf(exchange)
  const [task] = tasks
  return {
    revision: revision !== undefined && revisionForm.test(revision) ? revision : undefined,
    sessionId: learned.sessionId ?? clientSessionId(sessionTag, String(headers[SESSION_ID_HEADER])),
    taskId: learned.taskId ?? (task === undefined ? undefined : clientTaskId(task)),
    rpcId: learned.rpcId ?? (message?.type === 'request' ? message.id : undefined),
  }
}

/** Without a tag the client sent `id` as it is. */
function clientSessionId(tag: string | undefined, id: string): string | undefined {
  if (tag === undefined) return undefined
  return tag === '' ? id : boundSessionId(tag, id)
}

/** An exchange before its body is read. */
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
    connection: head.connection,
    sessionTag: head.sessionTag,
    learned: {},
    tasks: [],
    message: undefined,
    id: undefined,
    protocolError: undefined,
    isForeignSession: false,
  }
}

/**
 * Whether a disconnect ends the request. A GET ends in no other way. From 2026-07-28 on a client cancels a request by
 * closing its stream; before, a disconnect has no meaning.
 */
export function disconnectCancels(exchange: McpExchange): boolean {
  const { method, translation } = exchange
  return method === 'GET' || (translation?.isClientStateless ?? isStatelessExchange(exchange))
}

/** Whether the request is of a revision without sessions. */
export function isStatelessExchange(exchange: McpExchange): boolean {
  const revision = revisionOf(exchange)
  return revision !== undefined && isStateless(revision)
}

/** After which event the request resumes a stream. On a POST, and from 2026-07-28 on, the header has no meaning. */
export function lastEventIdOf(exchange: McpExchange): IncomingHttpHeaders[string] {
  if (exchange.method !== 'GET' || isStatelessExchange(exchange)) return undefined
  return exchange.headers[LAST_EVENT_ID_HEADER]
}

/** The revision that the request names, in its header or its `_meta`. */
export function revisionOf({ headers, message }: McpExchange): string | undefined {
  const header = headers[PROTOCOL_VERSION_HEADER]
  if (typeof header === 'string') return header
  return message === undefined || message.type === 'response' ? undefined : revisionIn(message.params)
}
