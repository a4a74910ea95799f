// Requests that the gateway answers itself, from what several servers say.
import type { JsonObject } from '@svc/core/json'
import { capabilityOf } from '../mcp/handshake.js'
import type { Implementation } from '../mcp/implementation.js'
import { noList } from '../mcp/list-pages.js'
import type { RpcRequest } from '../mcp/message.js'
import { isStateless } from '../mcp/protocol.js'
import { toStatelessResult } from '../mcp/revision-translation.js'
import type { Fields } from '../mcp/rpc-response.js'
import { nameOfEntry, wholeList } from './catalog.js'
import { ask, type ClientRequest, linkTo, onUsableServers, ownMessage } from './client-request.js'
import { pageOf } from './cursor.js'
import { discoverResult, initializeResult, metaOf } from './description.js'
import { type ListKind, listForms, readList } from './server-lists.js'

type OwnAnswer = (request: ClientRequest, params: JsonObject, serverInfo: Implementation) => Promise<Fields>

const answers: Readonly<Record<string, OwnAnswer>> = {
  async initialize(request, _params, serverInfo) {
    const links = await onUsableServers(request, (server, hooks) => linkTo(request, server, hooks))
    return initializeResult(links, serverInfo, request.session.client.revision)
  },
  async 'server/discover'(request, _params, serverInfo) {
    const links = await onUsableServers(request, (server, hooks) => linkTo(request, server, hooks))
    return discoverResult(links, serverInfo)
  },
  ping: async () => ({}),
  'tools/list': listed('tools'),
  'prompts/list': listed('prompts'),
  'resources/list': listed('resources'),
  'resources/templates/list': listed('resourceTemplates'),
  'tasks/list': listedTasks,
  'logging/setLevel': setLevel,
}

/** Undefined for methods that the gateway does not answer itself. */
export function ownAnswerTo({ method }: RpcRequest): OwnAnswer | undefined {
  return Object.hasOwn(answers, method) ? answers[method] : undefined
}

function listed(kind: ListKind): OwnAnswer {
  return async (request, { cursor }, serverInfo) => {
    const { entries, results } = await wholeList(request, kind)
    const { page, nextCursor } = pageOf(entries, cursor, (entry) => nameOfEntry(kind, entry))
    const result = {
      [kind]: page,
      ...(nextCursor === undefined ? {} : { nextCursor }),
      ...metaOf(results),
    }
    const { revision } = request.session.client
    return isStateless(revision) ? toStatelessResult(result, listForms[kind].method, serverInfo) : result
  }
}

async function listedTasks(request: ClientRequest, { cursor }: JsonObject): Promise<Fields> {
  const results = await onUsableServers(request, async (server, hooks) => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, 'tasks') === undefined) return noList
    return readList(server, 'tasks', (params) =>
      ask(request, server, ownMessage(request, 'tasks/list', params), hooks),
    )
  })
  const tasks = results.flatMap((result) => {
    if (!('value' in result)) return []
    for (const { taskId } of result.value.entries) request.session.tasks.add(result.server, taskId)
    return result.value.entries
  })
  const { page, nextCursor } = pageOf(tasks, cursor, ({ taskId }) => taskId)
  return { tasks: page, ...(nextCursor === undefined ? {} : { nextCursor }), ...metaOf(results) }
}

/** For the servers that log; those that are linked later get it then. */
async function setLevel(request: ClientRequest, { level }: JsonObject): Promise<Fields> {
  const params = level === undefined ? {} : { level }
  request.session.logLevel = params
  await onUsableServers(request, async (server, hooks) => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, 'logging') === undefined) return
    await ask(request, server, ownMessage(request, 'logging/setLevel', params), hooks)
  })
  return {}
}
