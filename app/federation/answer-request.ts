// Answers one request of a client: by the server that it is for, else by the gateway from what all of them say.
import type { ClientExchange } from '../http/client-exchange.js'
import type { Implementation } from '../mcp/implementation.js'
import { McpRefusal } from '../mcp/mcp-refusal.js'
import type { RpcRequest } from '../mcp/message.js'
import { isStateless, rpcCodes, sessionMethods } from '../mcp/protocol.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { ClientRequest } from './client-request.js'
import { answerListen } from './listen.js'
import { ownAnswerTo } from './own-answers.js'
import { answerRouted, routerOf } from './routed-request.js'
import type { RunningRequest } from './running-request.js'

/** Requests that only revisions without sessions have. */
const statelessMethods: ReadonlySet<unknown> = new Set(['server/discover', LISTEN_METHOD])

interface AnswerParts {
  readonly serverInfo: Implementation
  /** Silence of a stream after which its client gets a comment. */
  readonly keepAliveMs: number
}

export async function answerRequest(
  request: ClientRequest,
  message: RpcRequest,
  client: ClientExchange,
  { serverInfo, keepAliveMs }: AnswerParts,
): Promise<void> {
  const { revision } = request.session.client
  if ((isStateless(revision) ? sessionMethods : statelessMethods).has(message.method)) {
    throw new McpRefusal(rpcCodes.methodNotFound, 'No such method in this revision.')
  }
  if (message.method === LISTEN_METHOD) return answerListen(request, message, client, keepAliveMs)
  const route = routerOf(message.method)
  if (route === undefined) return answerItself(request, message, client, serverInfo)
  const { running } = request.session
  const answer = async (cancellable?: RunningRequest): Promise<void> =>
    answerRouted(request, await route(request, message), client, cancellable)
  // A client of a revision without sessions cancels a request by leaving, and may use its id again.
  return isStateless(revision) ? answer() : running.run(message.id, answer)
}

async function answerItself(
  request: ClientRequest,
  message: RpcRequest,
  client: ClientExchange,
  serverInfo: Implementation,
): Promise<void> {
  const own = ownAnswerTo(message)
  if (own === undefined) throw new McpRefusal(rpcCodes.methodNotFound, 'No such method.')
  let hasCalled = false
  const result = await own(
    {
      ...request,
      calls: {
        ...request.calls,
        run(sent, answer) {
          hasCalled = true
          return request.calls.run(sent, answer)
        },
      },
    },
    message.params,
    serverInfo,
  )
  // A request for which no server was called has a record of its own.
  if (!hasCalled) await request.recordOwn(message)
  client.whole({
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: message.id, result }),
  })
}
