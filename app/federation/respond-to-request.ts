// Responds to one request of a client: the server that it is for responds, else the gateway merges the responses of all.
import { Refusal } from '@svc/core'
import { type JsonObject, parseJsonObject, stringifyJson } from '@svc/core/json'
import { type ClientExchange, writeOutcome } from '../http/client-exchange.js'
import { capabilityOf, hasServerInfo } from '../mcp/handshake.js'
import { type ListKind, listForms, noList, type ServerList } from '../mcp/lists.js'
import {
  invalidParams,
  invalidRequest,
  isRequestId,
  McpRefusal,
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
} from '../mcp/message.js'
import { type Implementation, rpcCodes, sessionMethods } from '../mcp/protocol.js'
import { toStatelessResult } from '../mcp/revision-translation.js'
import type { Fields } from '../mcp/rpc-response.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import { checkTasksDeclared } from '../mcp/tasks.js'
import { wholeList } from './catalog.js'
import { toServer } from './client-message.js'
import { ask, type ClientRequest, linkTo, ownMessage, serverRequest } from './client-request.js'
import {
  mergedDiscoverResult,
  mergedInitializeResult,
  metaWithUnavailable,
  translatedDescription,
} from './description.js'
import { respondToListen } from './listen.js'
import { forwardRouted, routerOf } from './routed-request.js'
import { type CallHooks, replyTo, type ServerCalls, type ServerLink } from './server-calls.js'
import { readList } from './server-lists.js'
import { onUsableServers, serverResultOf, usableLinks } from './usable-servers.js'

/** Requests that only revisions without sessions have. */
const statelessMethods: ReadonlySet<unknown> = new Set(['server/discover', LISTEN_METHOD])

interface ResponseOptions {
  readonly serverInfo: Implementation
  /** Time without events after which a stream gets a comment, in milliseconds. */
  readonly keepAliveMs: number
}

export async function respondToRequest(
  request: ClientRequest,
  message: RpcRequest,
  client: ClientExchange,
  { serverInfo, keepAliveMs }: ResponseOptions,
): Promise<void> {
  const { isStateless } = request.session
  if ((isStateless ? sessionMethods : statelessMethods).has(message.method)) {
    throw new McpRefusal(rpcCodes.methodNotFound, 'No such method in this revision.')
  }
  if (isStateless) checkTasksDeclared(message.method, message.params)
  if (message.method === LISTEN_METHOD) return respondToListen(request, message, client, keepAliveMs)
  const { only } = request
  const route = routerOf(message.method)
  if (route === undefined && only !== undefined && !Object.hasOwn(localMethods, message.method))
    return forwardRouted(request, { server: only, message: message.whole }, client)
  if (route === undefined) return respondLocally(request, message, client, serverInfo)
  return forwardRouted(request, await route(request, message), client)
}

async function respondLocally(
  request: ClientRequest,
  message: RpcRequest,
  client: ClientExchange,
  serverInfo: Implementation,
): Promise<void> {
  const own = Object.hasOwn(localMethods, message.method) ? localMethods[message.method] : undefined
  if (own === undefined) throw new McpRefusal(rpcCodes.methodNotFound, 'No such method.')
  const { only, session } = request
  let hasCalled = false
  const counted = {
    ...request,
    calls: {
      ...request.calls,
      run(...sent: Parameters<ServerCalls['run']>) {
        hasCalled = true
        return request.calls.run(...sent)
      },
    },
  }
  const link = only === undefined ? undefined : await linkOfOnly(counted, only)
  const result =
    link !== undefined && hasServerInfo(message.method)
      ? translatedDescription(link, session.client.revision)
      : await own(counted, message.params, link?.serverInfo ?? serverInfo)
  // If no server was called, the request gets a record of its own.
  if (!hasCalled) await request.recordOwn(message)
  client.whole({
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: stringifyJson({ jsonrpc: '2.0', id: message.id, result }),
  })
}

/** Rejects with `Refusal`. */
async function linkOfOnly(request: ClientRequest, server: string): Promise<ServerLink> {
  const found = await serverResultOf(server, linkTo(request, server))
  if ('value' in found) return found.value
  const { outcome } = found.unavailable.reply
  const code = outcome.kind === 'completed' ? 'UPSTREAM_UNREACHABLE' : outcome.code
  throw new Refusal(code, found.unavailable.message)
}

type LocalMethod = (request: ClientRequest, params: JsonObject, serverInfo: Fields) => Promise<Fields>

/** Methods to which the gateway responds itself, from the responses of several servers. */
const localMethods: Readonly<Record<string, LocalMethod>> = {
  async initialize(request, _params, serverInfo) {
    return mergedInitializeResult(await usableLinks(request), serverInfo, request.session.client.revision)
  },
  async 'server/discover'(request, _params, serverInfo) {
    const links = await usableLinks(request)
    return mergedDiscoverResult(links, serverInfo)
  },
  ping: async () => ({}),
  'tools/list': listed('tools'),
  'prompts/list': listed('prompts'),
  'resources/list': listed('resources'),
  'resources/templates/list': listed('resourceTemplates'),
  'tasks/list': listedTasks,
  'logging/setLevel': setLevel,
}

function listed(kind: ListKind): LocalMethod {
  return async (request, { cursor }, serverInfo) => {
    const { entries, results } = await wholeList(request, kind)
    const { page, nextCursor } = pageOf(entries, cursor, (entry) => entry[listForms[kind].nameMember])
    const result = {
      [kind]: page,
      ...(nextCursor === undefined ? {} : { nextCursor }),
      ...metaWithUnavailable(results),
    }
    return request.session.isStateless
      ? toStatelessResult(result, listForms[kind].method, serverInfo)
      : result
  }
}

async function listedTasks(request: ClientRequest, { cursor }: JsonObject): Promise<Fields> {
  const run = async (server: string, hooks: CallHooks): Promise<ServerList> => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, 'tasks') === undefined) return noList
    return readList(server, 'tasks', (params) =>
      ask(request, server, ownMessage(request, 'tasks/list', params), hooks),
    )
  }
  const results = await onUsableServers(request, { run })
  const tasks = results.flatMap((result) => {
    if (!('value' in result)) return []
    return result.value.entries
  })
  const { page, nextCursor } = pageOf(tasks, cursor, ({ taskId }) => taskId)
  return { tasks: page, ...(nextCursor === undefined ? {} : { nextCursor }), ...metaWithUnavailable(results) }
}

/** The levels of RFC 5424, as MCP names them. */
const levels: readonly unknown[] = [
  ...['debug', 'info', 'notice', 'warning'],
  ...['error', 'critical', 'alert', 'emergency'],
]

/** Sets the level at the servers that log; servers that are linked later get it then. */
async function setLevel(request: ClientRequest, { level = null }: JsonObject): Promise<Fields> {
  if (!levels.includes(level)) throw invalidParams(`level: expected one of ${levels.join(', ')}.`)
  const params = { level }
  request.session.logLevel = params
  await request.session.save()
  const run = async (server: string, hooks: CallHooks): Promise<void> => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, 'logging') === undefined) return
    await ask(request, server, ownMessage(request, 'logging/setLevel', params), hooks)
  }
  await onUsableServers(request, { run })
  return {}
}

/** Entries of a page, so many that a client which reads only one page gets the whole of a usual list. */
const pageSize = 1_000

/**
 * The page after `cursor`, and the cursor of the next one. `nameOf` names an entry; if the last entry of the previous page
 * is no longer listed, its position counts. Throws `McpRefusal` for an invalid cursor.
 */
export function pageOf<T>(
  entries: readonly T[],
  cursor: unknown,
  nameOf: (entry: T) => unknown,
  size = pageSize,
): { readonly page: readonly T[]; readonly nextCursor?: string } {
  const start = cursor === undefined ? 0 : startAfter(entries, cursor, nameOf)
  const page = entries.slice(start, start + size)
  const last = page.at(-1)
  const end = start + page.length
  if (last === undefined || end >= entries.length) return { page }
  const next = JSON.stringify({ after: nameOf(last), at: end })
  return { page, nextCursor: Buffer.from(next).toString('base64url') }
}

function startAfter<T>(entries: readonly T[], cursor: unknown, nameOf: (entry: T) => unknown): number {
  const given =
    typeof cursor === 'string' ? parseJsonObject(Buffer.from(cursor, 'base64url').toString()) : undefined
  const { after, at } = given ?? {}
  if (typeof after !== 'string' || typeof at !== 'number' || !Number.isInteger(at) || at < 0) {
    throw invalidParams('cursor: not one of this list.')
  }
  const index = entries.findIndex((entry) => nameOf(entry) === after)
  return index < 0 ? at : index + 1
}

// Forwards a client's notifications and responses to the servers that they are for.

/** Notifications for each server with which the client has a session. */
const forAll = new Set(['notifications/roots/list_changed'])

/** Responds with 202, or with the outcome of the call to the one server that the message is for. */
export async function respondToNotification(
  request: ClientRequest,
  message: RpcNotification | RpcResponse,
  client: ClientExchange,
): Promise<void> {
  // A server may run a notification as a request without a response.
  if (message.type === 'notification' && routerOf(message.method) !== undefined)
    throw invalidRequest(`id: ${message.method} is a request.`)
  const { mcp } = request.calls
  if (message.type === 'response' && (await mcp.requests.give(request.session.id, message))) {
    // Its content is judged with the call that is repeated with it.
    await request.recordOwn(message)
    return client.whole({ status: 202, headers: {}, body: '' })
  }
  const { session } = request
  const { requestId } = isCancellation(message) ? message.params : {}
  const running = isRequestId(requestId) ? await mcp.running.serverOf(session.id, requestId) : undefined
  const routed = running === undefined ? toServer(message) : { server: running, whole: message.whole }
  const links = await session.openLinks()
  const link = links.find(({ server }) => server === routed?.server)
  if (routed !== undefined && link !== undefined && request.servers.includes(link.server)) {
    return request.calls.run(serverRequest(request, link, routed.whole), (call, outcome, encoding) =>
      writeOutcome(client, call, outcome, encoding.encode),
    )
  }
  const isElsewhere = running === undefined && isCancellation(message) && session.shared?.isShared === true
  const isForAll = message.type === 'notification' && forAll.has(message.method)
  // It is not known to which server another gateway has sent the request; the others ignore the cancellation.
  const all = isForAll || isElsewhere ? links : []
  const sessions = all.filter(({ sessionId }) => sessionId !== undefined)
  await Promise.all(sessions.map((one) => replyTo(request.calls, serverRequest(request, one, message.whole))))
  if (sessions.length === 0) await request.recordOwn(message)
  client.whole({ status: 202, headers: {}, body: '' })
}

function isCancellation(message: RpcNotification | RpcResponse): message is RpcNotification {
  return message.type === 'notification' && message.method === 'notifications/cancelled'
}
