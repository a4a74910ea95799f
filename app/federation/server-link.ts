// How the requests of one client reach one server: in a session of the server's, or without sessions (2026-07-28).
import type { IncomingHttpHeaders } from 'node:http'
import { failed } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { PROTOCOL_VERSION_HEADER } from '../http/header-names.js'
import { MAX_DESCRIPTION } from '../mcp/kept-names.js'
import { HANDSHAKE_REVISION, isStateless, STATELESS_REVISION } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { sessionHeaders } from '../mcp/server-sessions.js'
import { clientMeta } from '../mcp/stateless-request.js'
import { type Reply, replyTo, type ServerCalls } from './server-calls.js'
import { abortAfter } from './time-limit.js'

/** What a client says of itself: in `initialize`, or in each request. */
export interface ClientFacts {
  readonly revision: string
  readonly capabilities: JsonObject
  readonly clientInfo: JsonObject
}

export interface ServerLink {
  readonly server: string
  readonly revision: string
  /** The id for clients; undefined where the server has no sessions. */
  readonly sessionId: string | undefined
  /** The result of `initialize` or `server/discover`. */
  readonly described: Fields
}

/** No request of this client reaches the server now. */
export class ServerUnavailable extends Error {
  override readonly name = 'ServerUnavailable'

  constructor(
    readonly server: string,
    readonly reply: Reply,
  ) {
    super(reasonOf(reply))
  }
}

export interface LinkParts {
  readonly calls: ServerCalls
  /** Those of the client's request, without those of MCP and of a single call. */
  readonly headers: IncomingHttpHeaders
  readonly timeoutMs: number
}

/** Rejects with `ServerUnavailable`. */
export async function openLink(server: string, client: ClientFacts, parts: LinkParts): Promise<ServerLink> {
  // The revision of the client first, so that it can use all of it.
  const order = isStateless(client.revision) ? [discover, initialize] : [initialize, discover]
  let last: Reply | undefined
  for (const open of order) {
    const { reply, link } = await open(server, client, parts)
    if (link !== undefined) return link
    last = reply
    if (!isOtherRevision(reply)) break
  }
  if (last === undefined) throw new Error('no way to open a link')
  throw new ServerUnavailable(server, last)
}

interface LinkReply {
  readonly reply: Reply
  readonly link?: ServerLink
}

async function initialize(server: string, client: ClientFacts, parts: LinkParts): Promise<LinkReply> {
  const isSame = !isStateless(client.revision)
  const params = {
    protocolVersion: isSame ? client.revision : HANDSHAKE_REVISION,
    // What a server asks of its client has no form that passes from one kind of revision to the other.
    capabilities: isSame ? client.capabilities : {},
    clientInfo: client.clientInfo,
  }
  const reply = await send(server, { id: 'svc-initialize', method: 'initialize', params }, {}, parts)
  const described = resultOf(reply)
  const revision = described?.['protocolVersion']
  if (described === undefined || typeof revision !== 'string' || isStateless(revision)) return { reply }
  checkDescription(server, described, reply)
  const link = { server, revision, sessionId: reply.sessionId, described }
  await send(server, { method: 'notifications/initialized' }, sessionHeaders(link), parts)
  return { reply, link }
}

async function discover(server: string, client: ClientFacts, parts: LinkParts): Promise<LinkReply> {
  const params = { _meta: metaOfClient(client) }
  const headers = { [PROTOCOL_VERSION_HEADER]: STATELESS_REVISION, 'mcp-method': 'server/discover' }
  const reply = await send(server, { id: 'svc-discover', method: 'server/discover', params }, headers, parts)
  const described = resultOf(reply)
  if (described === undefined || !isJsonObject(described['capabilities'])) return { reply }
  checkDescription(server, described, reply)
  return { reply, link: { server, revision: STATELESS_REVISION, sessionId: undefined, described } }
}

/** A link keeps it for as long as the session of the client. Throws `ServerUnavailable`. */
function checkDescription(server: string, described: Fields, reply: Reply): void {
  if (JSON.stringify(described).length <= MAX_DESCRIPTION) return
  const message = `What the server says of itself is over ${MAX_DESCRIPTION} characters.`
  throw new ServerUnavailable(server, {
    ...reply,
    outcome: failed('PAYLOAD_TOO_LARGE', message),
  })
}

/** What a request without a session says of the client. */
export function metaOfClient({ revision, capabilities, clientInfo }: ClientFacts): JsonObject {
  return clientMeta(clientInfo, isStateless(revision) ? capabilities : {})
}

/** What the server says of a capability; undefined for one that it does not have. */
export function capabilityOf({ described }: ServerLink, name: string): Fields | undefined {
  const { capabilities } = described
  const capability = isJsonObject(capabilities) ? capabilities[name] : undefined
  return isJsonObject(capability) ? capability : undefined
}

function send(
  server: string,
  message: JsonObject,
  headers: Record<string, string>,
  parts: LinkParts,
): Promise<Reply> {
  return replyTo(parts.calls, {
    server,
    method: 'POST',
    headers: { ...parts.headers, 'content-type': 'application/json', ...headers },
    message: { jsonrpc: '2.0', ...message },
    onCall: (call) => abortAfter(call, parts.timeoutMs),
  })
}

export function resultOf({ status, response }: Reply): Fields | undefined {
  const result = response?.['result']
  return status < 400 && isJsonObject(result) ? result : undefined
}

/** Whether the server understood the request, and has no such method or revision. */
function isOtherRevision({ outcome, status }: Reply): boolean {
  return outcome.kind === 'completed' && status !== 401 && status !== 403 && status < 500
}

function reasonOf({ outcome, status, response }: Reply): string {
  if (outcome.kind !== 'completed') return outcome.message
  const error = response?.['error']
  const message = isJsonObject(error) ? error['message'] : undefined
  return typeof message === 'string' ? message : `The server answered with the status ${status}.`
}
