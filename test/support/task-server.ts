// An MCP server of 2026-07-28 with the tasks extension (SEP-2663), and the tools that the scenarios of the public conformance
// suite call.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { listenOnLoopback } from './loopback.js'

const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'
const REVISION = '2026-07-28'
const META = 'io.modelcontextprotocol/'

interface Task {
  readonly taskId: string
  readonly createdAt: string
  state: JsonObject & { readonly status: string }
  stop(): void
  give?(responses: JsonObject): void
}

class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: JsonObject,
  ) {
    super(message)
  }
}

const said = (text: string, isError = false): JsonObject => ({ content: [{ type: 'text', text }], isError })
const elicitation = (message: string): JsonObject => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
})
const completed = (result: JsonObject) => ({ status: 'completed', result })

/** Runs until `settle` is called. */
type Work = (args: JsonObject, task: Task, settle: (state: Task['state']) => void) => void

function asking(...names: readonly string[]): Work {
  return (_args, task, settle) => {
    const open = new Map(names.map((name) => [name, elicitation(name)]))
    const park = () => settle({ status: 'input_required', inputRequests: Object.fromEntries(open) })
    task.give = (responses) => {
      for (const name of Object.keys(responses)) open.delete(name)
      if (open.size > 0) park()
      else settle(completed(said('done')))
    }
    park()
  }
}

const after =
  (ms: (args: JsonObject) => number, state: (args: JsonObject) => Task['state']): Work =>
  (args, task, settle) => {
    const timer = setTimeout(() => settle(state(args)), ms(args)).unref()
    task.stop = () => clearTimeout(timer)
  }

const works: Readonly<Record<string, Work>> = {
  slow_compute: after(
    // A tenth of the time that is asked for, so that the scenarios are short.
    ({ seconds }) => Number(seconds) * 100,
    () => completed(said('computed')),
  ),
  failing_job: after(
    () => 100,
    () => completed(said('failed', true)),
  ),
  protocol_error_job: after(
    () => 100,
    () => ({ status: 'failed', error: { code: -32603, message: 'It broke.' } }),
  ),
  confirm_delete: asking('confirm'),
  multi_input: asking('first', 'second'),
  test_tool_with_task: after(
    () => 0,
    ({ name }) => completed(said(`Hello, ${String(name)}!`)),
  ),
}

class TaskServer {
  #tasks = new Map<string, Task>()

  result(method: string, params: JsonObject): JsonObject {
    switch (method) {
      case 'server/discover':
        return {
          supportedVersions: [REVISION],
          capabilities: { tools: {}, extensions: { [TASKS_EXTENSION]: {} } },
          ...{ ttlMs: 0, cacheScope: 'private' },
        }
      case 'tools/list': {
        const names = ['greet', ...Object.keys(works)]
        const tools = names.map((name) => ({ name, inputSchema: { type: 'object' } }))
        return { tools, ttlMs: 0, cacheScope: 'private' }
      }
      case 'tools/call':
        return this.#call(params)
      case 'tasks/get':
        return shown(this.#task(params))
      case 'tasks/cancel': {
        const task = this.#task(params)
        task.stop()
        if (!isSettled(task)) task.state = { status: 'cancelled' }
        return {}
      }
      case 'tasks/update': {
        const { inputResponses } = params
        if (isJsonObject(inputResponses)) this.#task(params).give?.(inputResponses)
        return {}
      }
      default:
        throw new RpcError(-32601, `Method not found: ${method}`)
    }
  }

  stop(): void {
    for (const task of this.#tasks.values()) task.stop()
  }

  #call(params: JsonObject): JsonObject {
    const name = String(params['name'])
    const args = isJsonObject(params['arguments']) ? params['arguments'] : {}
    if (name === 'greet') return said(`Hello, ${String(args['name'])}!`)
    const work = works[name]
    if (work === undefined) throw new RpcError(-32602, `Unknown tool: ${name}`)
    if (!declares(params)) {
      if (name === 'failing_job') throw missing()
      return said('computed')
    }
    const given = isJsonObject(params['inputResponses']) ? params['inputResponses']['user_name'] : undefined
    if (name === 'test_tool_with_task' && given === undefined)
      return { resultType: 'input_required', inputRequests: { user_name: elicitation('Who are you?') } }
    const content = isJsonObject(given) && isJsonObject(given['content']) ? given['content'] : {}
    return this.#begin(work, { ...args, ...content })
  }

  #begin(work: Work, args: JsonObject): JsonObject {
    const at = new Date().toISOString()
    const task: Task = {
      taskId: randomUUID(),
      createdAt: at,
      state: { status: 'working' },
      stop: () => undefined,
    }
    this.#tasks.set(task.taskId, task)
    const created = { ...shown(task), resultType: 'task' }
    work(args, task, (state) => {
      if (!isSettled(task)) task.state = state
    })
    return created
  }

  #task({ taskId }: JsonObject): Task {
    const task = this.#tasks.get(String(taskId))
    if (task === undefined) throw new RpcError(-32602, 'Unknown task')
    return task
  }
}

function isSettled({ state }: Task): boolean {
  return ['completed', 'failed', 'cancelled'].includes(state.status)
}

function shown({ taskId, createdAt, state }: Task): JsonObject {
  return { taskId, createdAt, lastUpdatedAt: createdAt, ttlMs: 60_000, pollIntervalMs: 100, ...state }
}

function declares(params: JsonObject): boolean {
  const meta = isJsonObject(params['_meta']) ? params['_meta'] : {}
  const capabilities = meta[`${META}clientCapabilities`]
  const extensions = isJsonObject(capabilities) ? capabilities['extensions'] : undefined
  return isJsonObject(extensions) && TASKS_EXTENSION in extensions
}

function missing(): RpcError {
  const data = { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } }
  return new RpcError(-32021, 'The tasks extension is required', data)
}

function checked({ headers }: IncomingMessage, method: string, params: JsonObject): void {
  const isOfTask = /^tasks\/(?:get|update|cancel)$/.test(method)
  const named = isOfTask ? params['taskId'] : method === 'tools/call' ? params['name'] : undefined
  if (headers['mcp-method'] !== method || (named !== undefined && headers['mcp-name'] !== named))
    throw new RpcError(-32020, 'The headers differ from the body')
  if (isOfTask && !declares(params)) throw missing()
}

const statuses: Readonly<Record<number, number>> = { [-32601]: 404, [-32020]: 400, [-32021]: 400 }

export async function startTaskServer(): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = new TaskServer()
  const http = createServer(async (message, response) => {
    const pieces: Buffer[] = []
    for await (const piece of message) pieces.push(piece as Buffer)
    const { id, method, params } = JSON.parse(Buffer.concat(pieces).toString() || '{}')
    const write = (status: number, body: object) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
    try {
      checked(message, method, params)
      const result = server.result(method, params)
      const _meta = { [`${META}serverInfo`]: { name: 'tasks', version: '1.0.0' } }
      write(200, { result: { resultType: 'complete', ...result, _meta } })
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      const { code, message: text, data } = error
      write(statuses[code] ?? 200, {
        error: { code, message: text, ...(data === undefined ? {} : { data }) },
      })
    }
  })
  const listening = await listenOnLoopback(http)
  return {
    url: `${listening.url}/mcp`,
    async [Symbol.asyncDispose]() {
      server.stop()
      await listening[Symbol.asyncDispose]()
    },
  }
}
