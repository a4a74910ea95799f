// Binds MCP tasks to the caller whose tool call made them, as sessions are bound. The task id of a client has a tag and
// the tool before the server's own id: the id that another caller saw or guessed names no task.
import type { Call } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { isFields } from './listing.js'
import { isObject, type Message } from './message.js'
import type { Fields } from './rpc-response.js'
import { type BoundTask, clientTaskId, type SessionBinding } from './session-binding.js'

export const TASKS_PREFIX = 'tasks/'

/** Which task a message belongs to. */
const RELATED = 'io.modelcontextprotocol/related-task'

/** Tasks that lists may show; of more, the one used longest ago is no longer listed. */
const maxKnown = 10_000

/** A tag as of sessions, the tool in base64url, the server's id. */
const boundId = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]+)\.(.+)$/s

/** The message with the server's own task ids, and the tasks that it names; a tag is empty where the id had none. */
export function splitTaskIds(message: Message): { message: Message; tasks: readonly BoundTask[] } {
  const tasks: BoundTask[] = []
  if (message.type === 'response') {
    const { result } = message.whole
    // A client may have tasks of its own, which it names to the server as they are.
    if (!isObject(result) || !boundId.test(String(relatedId(result)))) return { message, tasks }
    const whole = { ...message.whole, result: withRelated(result, (id) => split(id, tasks)) }
    return { message: { ...message, whole }, tasks }
  }
  let params: JsonObject = message.params
  if (message.method.startsWith(TASKS_PREFIX) && 'taskId' in params) {
    // What is no text is no id of ours, and is not found.
    params = { ...params, taskId: split(String(params['taskId']), tasks) }
  }
  if (message.type === 'request') params = withRelated(params, (id) => split(id, tasks))
  if (tasks.length === 0) return { message, tasks }
  return { message: { ...message, params, whole: { ...message.whole, params } }, tasks }
}

function split(given: string, tasks: BoundTask[]): string {
  const [, tag = '', tool = '', id = given] = boundId.exec(given) ?? []
  tasks.push({ tag, tool: Buffer.from(tool, 'base64url').toString(), id })
  return id
}

/** The tasks that this process has seen, for lists and notifications, which name tasks without their tag. */
export class KnownTasks {
  #tasks = new Map<string, BoundTask>()

  add(server: string, task: BoundTask): void {
    const key = JSON.stringify([server, task.id])
    this.#tasks.delete(key)
    this.#tasks.set(key, task)
    const [oldest] = this.#tasks.keys()
    if (this.#tasks.size > maxKnown && oldest !== undefined) this.#tasks.delete(oldest)
  }

  get(server: string, id: string): BoundTask | undefined {
    return this.#tasks.get(JSON.stringify([server, id]))
  }
}

/** Whether the tool of a task may be used. */
export type MayUseTool = (tool: string) => Promise<boolean>

/** Puts the client's task ids in place of the server's in what a server sends to the caller of `call`. */
export class TaskIds {
  #call: Call
  #sessions: SessionBinding
  #known: KnownTasks

  constructor(call: Call, sessions: SessionBinding, known: KnownTasks) {
    this.#call = call
    this.#sessions = sessions
    this.#known = known
  }

  /** A tool call's answer may begin a task. */
  created(result: Fields, tool: string): Fields {
    const { task, taskId } = result
    if (result['resultType'] === 'task' && typeof taskId === 'string') {
      return { ...result, taskId: clientTaskId(this.#began(tool, taskId)) }
    }
    if (!isFields(task) || typeof task['taskId'] !== 'string') return result
    return { ...result, task: { ...task, taskId: clientTaskId(this.#began(tool, task['taskId'])) } }
  }

  /** A task of another caller stays without an id that this caller could use. */
  named(fields: Fields): Fields {
    const { taskId } = fields
    const bound = typeof taskId === 'string' ? this.#owned(taskId) : undefined
    return bound === undefined ? fields : { ...fields, taskId: clientTaskId(bound) }
  }

  related(fields: Fields): Fields {
    return withRelated(fields, (id) => {
      const owned = this.#owned(id)
      return owned === undefined ? id : clientTaskId(owned)
    })
  }

  owns(taskId: unknown): boolean {
    return typeof taskId === 'string' && this.#owned(taskId) !== undefined
  }

  /** The entries of a list that are the caller's, and whose tool it may use. */
  async listed(entries: readonly unknown[], mayUseTool: MayUseTool): Promise<Fields[]> {
    const kept: Fields[] = []
    for (const entry of entries) {
      if (!isFields(entry)) continue
      const { taskId } = entry
      const owned = typeof taskId === 'string' ? this.#owned(taskId) : undefined
      if (owned !== undefined && (await mayUseTool(owned.tool))) kept.push(this.named(entry))
    }
    return kept
  }

  #began(tool: string, id: string): BoundTask {
    const task = this.#sessions.bindTask(this.#call, tool, id)
    this.#known.add(this.#call.target.server, task)
    return task
  }

  #owned(id: string): BoundTask | undefined {
    const task = this.#known.get(this.#call.target.server, id)
    return task !== undefined && this.#sessions.isBoundTask(this.#call, task) ? task : undefined
  }
}

/** The id of the task that the result of a tool call begins. */
export function createdTaskId({ resultType, taskId, task }: Fields): string | undefined {
  const id = resultType === 'task' ? taskId : isFields(task) ? task['taskId'] : undefined
  return typeof id === 'string' ? id : undefined
}

/** Whether a message of a server's names any task. */
export function namesTasks(message: Fields): boolean {
  const { method, params, result } = message
  if (isFields(params) && relatedId(params) !== undefined) return true
  if (isStatus(method)) return true
  if (!isFields(result)) return false
  const isList = Array.isArray(result['tasks'])
  return isList || isFields(result['task']) || 'taskId' in result || relatedId(result) !== undefined
}

/** A notification of what became of a task. */
export function isStatus(method: unknown): boolean {
  return typeof method === 'string' && method.startsWith(`notifications/${TASKS_PREFIX}`)
}

function relatedId({ _meta }: Fields): string | undefined {
  const related = isFields(_meta) ? _meta[RELATED] : undefined
  const id = isFields(related) ? related['taskId'] : undefined
  return typeof id === 'string' ? id : undefined
}

function withRelated<T extends Fields>(fields: T, change: (id: string) => string): T {
  const { _meta } = fields
  const id = relatedId(fields)
  const related = isFields(_meta) ? _meta[RELATED] : undefined
  if (id === undefined || !isFields(_meta) || !isFields(related)) return fields
  return { ...fields, _meta: { ..._meta, [RELATED]: { ...related, taskId: change(id) } } }
}
