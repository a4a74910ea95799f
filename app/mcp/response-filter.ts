// Filters each response before the caller gets it: learns the server's version, filters lists, and replaces task ids.
import {
  type Call,
  type CallRequest,
  type DefinitionFilter,
  definitionFilter,
  type MaybePromise,
  type ReceivedDefinition,
  serverMethodRules,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { type CallControl, refineTarget } from '@svc/core/pipeline'
import { noteRpcError } from '../upstream/send.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import { hasServerInfo, serverVersionIn } from './handshake.js'
import type { AnnotationCache, UiResources } from './learned-values.js'
import { filterListing, forOneCaller, isListing, type ListKind, listForms } from './lists.js'
import { isRequestId } from './message.js'
import { listedReference } from './references.js'
import { type Fields, listDigest } from './rpc-response.js'
import { asksClients, type ServerRequests } from './server-requests.js'
import type { ServerVersions } from './server-versions.js'
import type { SessionBinding } from './session-binding.js'
import { createdTaskId, isStatus, type KnownTasks, namesTasks, TaskIds } from './tasks.js'

/** The caches that learn from the responses of servers. */
export interface LearningCaches {
  readonly versions: ServerVersions
  readonly annotations: AnnotationCache
  readonly tasks: KnownTasks
  readonly interfaces: UiResources
  readonly requests: ServerRequests
  /** Rejects if the key cannot be read. */
  readonly sessions: () => MaybePromise<SessionBinding>
}

/** The members of a request that the filter uses. */
export type FilteredRequest = Pick<CallRequest, 'kind' | 'name' | 'method'>

export class ResponseFilter {
  #call: CallControl
  #request: FilteredRequest
  #exchange: McpExchange
  #caches: LearningCaches

  constructor(call: CallControl, request: FilteredRequest, exchange: McpExchange, caches: LearningCaches) {
    this.#call = call
    this.#request = request
    this.#exchange = exchange
    this.#caches = caches
  }

  /**
   * Returns the same object if nothing is removed. Rejects with `Refusal` if the server's version cannot be
   * learned. `text` is the message as JSON.
   */
  async response(message: Fields, text: string): Promise<Fields> {
    noteRpcError(this.#call, message)
    // The result of a guarded method needs no filter, because its reference was judged.
    const listed = this.#request.kind === 'protocol' ? await this.#ofProtocol(message, text) : message
    const { result, error } = listed
    let shown = listed
    if (isJsonObject(error)) shown = await this.#withUrls(listed, error)
    else if (isJsonObject(result)) {
      const changed = await this.#ofCaller(listed, result)
      if (changed !== result) shown = { ...listed, result: changed }
    }
    return this.#exchange.translation?.response(shown) ?? shown
  }

  /** The result with what only its caller can send back: states, a cursor, task ids. */
  async #ofCaller(message: Fields, result: Fields): Promise<Fields> {
    const { requests } = this.#caches
    const asking = await this.#withInput(result)
    const { method } = this.#request
    const shown =
      'nextCursor' in asking ? await requests.withCursor(this.#call, this.#exchange, method, asking) : asking
    const mayNameTasks = 'task' in result || 'tasks' in result || 'taskId' in result || '_meta' in result
    return mayNameTasks && namesTasks(message) ? this.#withTasks(shown) : shown
  }

  /** A server's request or notification; undefined if it is not for this caller. */
  async message(message: Fields): Promise<Fields | undefined> {
    const judged = await this.#judged(message)
    const shown = judged && (await this.#withOwnTasks(judged))
    const { translation } = this.#exchange
    return shown === undefined || translation === undefined ? shown : translation.message(shown)
  }

  /** A request or notification that the rules on what servers send allow. */
  async #judged(message: Fields): Promise<Fields | undefined> {
    const call = this.#call
    const { requests } = this.#caches
    const { id, method, params } = message
    if ((await call.get(serverMethodRules)?.mayPass(call, String(method))) === false)
      return isRequestId(id) ? requests.refuse(call, this.#exchange, id) : undefined
    if (id !== undefined || asksClients(method)) return requests.shown(call, this.#exchange, message)
    if (!isJsonObject(params)) return message
    const shown = await this.#withInput(params)
    return shown === params ? message : { ...message, params: shown }
  }

  async #withUrls(message: Fields, error: Fields): Promise<Fields> {
    const { data } = error
    if (!isJsonObject(data) || !('elicitations' in data)) return message
    const shown = await this.#caches.requests.withUrls(this.#call, this.#exchange, error)
    return shown === error ? message : { ...message, error: shown }
  }

  #withInput(fields: Fields): MaybePromise<Fields> {
    const asks = 'inputRequests' in fields || 'requestState' in fields
    return asks ? this.#caches.requests.withInput(this.#call, this.#exchange, fields) : fields
  }

  async #withOwnTasks(message: Fields): Promise<Fields | undefined> {
    const { method, params } = message
    if (!isJsonObject(params) || !namesTasks(message)) return message
    const ids = await this.#taskIds()
    if (!isStatus(method)) return { ...message, params: await ids.related(params) }
    if (!(await ids.owns(params['taskId']))) return undefined
    return { ...message, params: await ids.related(await ids.named(params)) }
  }

  async #withTasks(result: Fields): Promise<Fields> {
    const { kind, name } = this.#request
    const ids = await this.#taskIds()
    const related = await ids.related(result)
    if (kind === 'tool') {
      const created = await ids.created(related, name)
      const taskId = createdTaskId(created)
      if (taskId !== undefined) this.#exchange.learned.taskId = taskId
      return created
    }
    if (kind !== 'protocol') return related
    const { tasks } = related
    if (!Array.isArray(tasks)) return ids.named(related)
    const mayUseTool = async (tool: string): Promise<boolean> => {
      const version = await this.#caches.versions.of(this.#exchange.upstream(), this.#exchange.credential)
      return this.#mayRequest('tool', tool, version)
    }
    return { ...related, tasks: await ids.listed(tasks, mayUseTool) }
  }

  async #taskIds(): Promise<TaskIds> {
    return new TaskIds(this.#call, await this.#caches.sessions(), this.#caches.tasks)
  }

  async #ofProtocol(message: Fields, text: string): Promise<Fields> {
    const { result } = message
    if (hasServerInfo(this.#request.method)) await this.#learn(result)
    if (!isJsonObject(result)) return message
    const shown = await this.#withKnown(result, text)
    return shown === result ? message : { ...message, result: shown }
  }

  async #withKnown(result: Fields, text: string): Promise<Fields> {
    const call = this.#call
    const filter = call.get(definitionFilter)
    const known = (listed: Fields) =>
      filter === undefined
        ? listed
        : withKnownDefinitions(call, listed, filter, () => listDigest(listed, text, listed !== result))
    if (!isListing(result)) return known(result)
    const version = await this.#caches.versions.of(this.#exchange.upstream(), this.#exchange.credential)
    this.#refineTarget(version)
    const filtered = await known(filterListing(result, (kind, name) => this.#mayRequest(kind, name, version)))
    await this.#learnTools(version, result, filter === undefined ? result : filtered)
    return isStatelessExchange(this.#exchange) ? forOneCaller(filtered, filtered !== result) : filtered
  }

  async #learn(result: unknown): Promise<void> {
    const revision = isJsonObject(result) ? result['protocolVersion'] : undefined
    if (typeof revision === 'string') this.#exchange.learned.revision = revision
    const version = isJsonObject(result) ? serverVersionIn(result) : undefined
    if (version === undefined) return
    await this.#caches.versions.learn(this.#exchange.upstream(), version)
    this.#refineTarget(version)
  }

  /** `shown` is what is left of the list that the server sent. */
  async #learnTools(version: string, sent: Fields, shown: Fields): Promise<void> {
    if (this.#request.method !== 'tools/list') return
    const { server, upstream, message } = this.#exchange
    const source = { server, upstream: upstream(), version }
    const { annotations, interfaces } = this.#caches
    if (message?.type === 'request') await annotations.learnNames(source, sent, message.params['cursor'])
    await annotations.learn(source, shown)
    await interfaces.learn(source, shown)
  }

  /** Refines the target of the record, which is written after the response was read. */
  #refineTarget(version: string): void {
    this.#call[refineTarget]({ serverVersion: version, toolVersion: version })
  }

  #mayRequest(kind: CallRequest['kind'], name: string, version: string): boolean {
    const { server, upstream } = this.#exchange
    const reference = listedReference(server, kind, name, version)
    if (reference === undefined) return false
    const shownBy =
      kind === 'resource'
        ? this.#caches.interfaces.shownBy({ server, upstream: upstream(), version }, name)
        : undefined
    return this.#call.mayRequest(reference, kind, shownBy)
  }
}

/** The kinds of the entries of lists. */
const kinds: Readonly<Record<ListKind, ReceivedDefinition['kind']>> = {
  tools: 'tool',
  prompts: 'prompt',
  resources: 'resource',
  resourceTemplates: 'template',
}
const members = Object.keys(kinds) as ListKind[]

/**
 * Removes what a stage that knows definitions withholds; returns the same object if nothing is.  A result is recognised
 * by its members, whatever its method: a response that is replayed does not name it. `digest` is that of the result, if
 * it is known.
 */
async function withKnownDefinitions(
  call: Call,
  result: Fields,
  filter: DefinitionFilter,
  digest: () => MaybePromise<string | undefined>,
): Promise<Fields> {
  if (!isListing(result) && result['instructions'] === undefined) return result
  let found: readonly ReceivedDefinition[] | undefined
  const definitions = () => (found ??= definitionsIn(result))
  const withheld = await filter.withheld(call, { sha256: await digest(), definitions })
  if (withheld.size === 0) return result
  const values = new Set(Array.from(withheld, ({ value }) => value))
  const kept = members.flatMap((member) => {
    const entries: unknown = result[member]
    return Array.isArray(entries) ? [[member, entries.filter((entry) => !values.has(entry))] as const] : []
  })
  const { instructions, ...others } = result
  const isTold = 'instructions' in result && !values.has(instructions)
  return { ...(isTold ? result : others), ...Object.fromEntries(kept) }
}

function definitionsIn(result: Fields): ReceivedDefinition[] {
  const { instructions } = result
  const listed = members.flatMap((member) => {
    const entries: unknown = result[member]
    const { nameMember } = listForms[member]
    return (Array.isArray(entries) ? entries : []).flatMap((value: unknown): ReceivedDefinition[] => {
      const name = isJsonObject(value) ? value[nameMember] : undefined
      return typeof name === 'string' ? [{ kind: kinds[member], name, value }] : []
    })
  })
  return instructions === undefined
    ? listed
    : [...listed, { kind: 'instructions', name: '', value: instructions }]
}
