// Binds MCP tasks to the caller whose tool call began them. The client's task id is a tag, the server, the tool and the
// server's own id, so that another caller cannot use it, and any gateway finds the server.
import { type Call, Refusal } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import type { Message } from './message.js'
import { McpRefusal } from './message.js'
import { metaOf } from './meta.js'
import { MAX_NAME, META_CLIENT_CAPABILITIES, rpcCodes, TASKS_EXTENSION } from './protocol.js'
import type { Fields } from './rpc-response.js'
import { type BoundTask, clientTaskId, type SessionBinding, taskOfClientId } from './session-binding.js'
import { type SharedState, tenantOf, unlessDown } from './shared-state.js'

export const TASKS_PREFIX = 'tasks/'

/** The member of `_meta` that names the task of a message. */
const RELATED = 'io.modelcontextprotocol/related-task'

/** Tasks of a tenant at a server that lists may show; beyond it, the task used longest ago is no longer listed. */
const maxKnown = 10_000
/** A week, in milliseconds, after which a task that was not used is no longer listed. */
const knownMs = 604_800_000

/** Throws `McpRefusal` if a request of 2026-07-28 is about a task, and its client does not declare that it knows tasks. */
export function checkTasksDeclared(method: string, { _meta: meta }: JsonObject): void {
  if (!method.startsWith(TASKS_PREFIX)) return
  const capabilities = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined
  const extensions = isJsonObject(capabilities) ? capabilities['extensions'] : undefined
  if (isJsonObject(extensions) && extensions[TASKS_EXTENSION] !== undefined) return
  throw new McpRefusal(rpcCodes.missingCapability, `The client does not declare ${TASKS_EXTENSION}.`, {
    status: 400,
    data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
  })
}

/** The message with the server's own task ids, and the tasks that it names; a tag is empty if the id had none. */
export function splitTaskIds(message: Message): { message: Message; tasks: readonly BoundTask[] } {
  const tasks: BoundTask[] = []
  if (message.type === 'response') {
    const { result } = message.whole
    // A client may have tasks of its own, whose ids stay.
    if (!isJsonObject(result) || taskOfClientId(relatedId(result) ?? '') === undefined)
      return { message, tasks }
    const whole = { ...message.whole, result: withRelated(result, (id) => splitClientId(id, tasks)) }
    return { message: { ...message, whole }, tasks }
  }
  let params: JsonObject = message.params
  if (message.method.startsWith(TASKS_PREFIX) && 'taskId' in params) {
    // An id that is not a string is not one of the gateway's, and is not found.
    const { taskId } = params
    params = { ...params, taskId: splitClientId(typeof taskId === 'string' ? taskId : '', tasks) }
  }
  if (message.type === 'request' && RELATED in metaOf(params))
    params = withRelated(params, (id) => splitClientId(id, tasks))
  if (tasks.length === 0) return { message, tasks }
  return { message: { ...message, params, whole: { ...message.whole, params } }, tasks }
}

function splitClientId(given: string, tasks: BoundTask[]): string {
  const task = taskOfClientId(given) ?? { tag: '', server: '', tool: '', id: given }
  tasks.push(task)
  return task.id
}

/** The tasks that the gateways know, for lists and notifications, whose task ids have no tag. */
export class KnownTasks {
  #map: SharedMap

  constructor(state: SharedState) {
    this.#map = state.map('mcp-tasks', { ttlMs: knownMs, maxEntries: maxKnown })
  }

  /** If the store is down, lists do not show the task until a request names it again. */
  async add(call: Call, { tag, tool, id }: BoundTask): Promise<void> {
    await unlessDown(this.#map.set(groupOf(call), [[id, JSON.stringify([tag, tool])]]))
  }

  /** The known tasks among `ids` at the server of `call`. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async among(call: Call, ids: readonly string[]): Promise<Map<string, BoundTask>> {
    const kept = await this.#map.get(groupOf(call), ids)
    return new Map(
      ids.flatMap((id, at): [string, BoundTask][] => {
        const entry = kept[at]
        if (entry === undefined) return []
        const [tag, tool] = entrySchema.parse(JSON.parse(entry))
        return [[id, { tag, server: call.target.server, tool, id }]]
      }),
    )
  }
}

/** The tag and the tool. */
const entrySchema = z.tuple([z.string(), z.string()])

/** The tasks of one tenant at one server. */
function groupOf(call: Call): string {
  return JSON.stringify([tenantOf(call), call.target.server])
}

/** Whether the caller may use the tool of a task. */
export type MayUseTool = (tool: string) => Promise<boolean>

/** Replaces the server's task ids by the client's in messages to the caller of `call`. */
export class TaskIds {
  #call: Call
  #sessions: SessionBinding
  #known: KnownTasks

  constructor(call: Call, sessions: SessionBinding, known: KnownTasks) {
    this.#call = call
    this.#sessions = sessions
    this.#known = known
  }

  /** The result of a tool call, which may begin a task. */
  async created(result: Fields, tool: string): Promise<Fields> {
    const { task, taskId } = result
    if (result['resultType'] === 'task' && typeof taskId === 'string') {
      return { ...result, taskId: clientTaskId(await this.#began(tool, taskId)) }
    }
    if (!isJsonObject(task) || typeof task['taskId'] !== 'string') return result
    return { ...result, task: { ...task, taskId: clientTaskId(await this.#began(tool, task['taskId'])) } }
  }

  /** The task of another caller keeps the server's id, which this caller cannot use. */
  async named(fields: Fields): Promise<Fields> {
    const bound = await this.#owned(fields['taskId'])
    return bound === undefined ? fields : { ...fields, taskId: clientTaskId(bound) }
  }

  async related(fields: Fields): Promise<Fields> {
    const bound = await this.#owned(relatedId(fields))
    return bound === undefined ? fields : withRelated(fields, () => clientTaskId(bound))
  }

  async owns(taskId: unknown): Promise<boolean> {
    return (await this.#owned(taskId)) !== undefined
  }

  /** The entries of a list that are the caller's, and whose tool it may use. */
  async listed(entries: readonly unknown[], mayUseTool: MayUseTool): Promise<Fields[]> {
    const named = entries.filter(isJsonObject)
    const owned = await this.#ownedAmong(named.map(({ taskId }) => taskId))
    const kept: Fields[] = []
    for (const entry of named) {
      const task = owned.get(entry['taskId'])
      if (task !== undefined && (await mayUseTool(task.tool)))
        kept.push({ ...entry, taskId: clientTaskId(task) })
    }
    return kept
  }

  /** Rejects with `Refusal` (`PAYLOAD_TOO_LARGE`) for an id that is too long to be kept. */
  async #began(tool: string, id: string): Promise<BoundTask> {
    if (id.length > MAX_NAME || tool.length > MAX_NAME) {
      throw new Refusal(
        'PAYLOAD_TOO_LARGE',
        `The task or its tool has a name of over ${MAX_NAME} characters.`,
      )
    }
    const task = this.#sessions.bindTask(this.#call, tool, id)
    await this.#known.add(this.#call, task)
    return task
  }

  async #owned(id: unknown): Promise<BoundTask | undefined> {
    return (await this.#ownedAmong([id])).get(id)
  }

  async #ownedAmong(ids: readonly unknown[]): Promise<Map<unknown, BoundTask>> {
    // Longer ids are not kept.
    const names = ids.filter((id): id is string => typeof id === 'string' && id.length <= MAX_NAME)
    const known = names.length === 0 ? [] : await this.#known.among(this.#call, names)
    return new Map([...known].filter(([, task]) => this.#sessions.isBoundTask(this.#call, task)))
  }
}

/** The server's id of the task that the result of a tool call begins. */
export function createdTaskId({ resultType, taskId, task }: Fields): string | undefined {
  const id = resultType === 'task' ? taskId : isJsonObject(task) ? task['taskId'] : undefined
  return typeof id === 'string' ? id : undefined
}

/** Whether a server's message names a task. */
export function namesTasks(message: Fields): boolean {
  const { method, params, result } = message
  if (isJsonObject(params) && relatedId(params) !== undefined) return true
  if (method !== undefined && isStatus(method)) return true
  if (!isJsonObject(result)) return false
  const isList = Array.isArray(result['tasks'])
  return isList || isJsonObject(result['task']) || 'taskId' in result || relatedId(result) !== undefined
}

/** Whether the method is a notification of a task's status. */
export function isStatus(method: unknown): boolean {
  return typeof method === 'string' && method.startsWith(`notifications/${TASKS_PREFIX}`)
}

function relatedId(fields: Fields): string | undefined {
  const { [RELATED]: related } = metaOf(fields)
  const id = isJsonObject(related) ? related['taskId'] : undefined
  return typeof id === 'string' ? id : undefined
}

function withRelated<T extends Fields>(fields: T, change: (id: string) => string): T {
  const id = relatedId(fields)
  const { [RELATED]: related, ...others } = metaOf(fields)
  if (id === undefined || !isJsonObject(related)) return fields
  return { ...fields, _meta: { ...others, [RELATED]: { ...related, taskId: change(id) } } }
}
