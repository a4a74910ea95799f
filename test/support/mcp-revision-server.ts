// An MCP server of an SDK 1.x release, with sessions whose streams can be resumed.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type {
  EventStore,
  StreamableHTTPServerTransport,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { listenOnLoopback } from './loopback.js'
import { type HandshakeRevision, type Sdk, sdkOf } from './mcp-sdks.js'
import { signalled } from './signalled.js'

type McpServer = InstanceType<Sdk['McpServer']>

const text = (value: string) => ({ type: 'text' as const, text: value })

interface Session {
  readonly transport: StreamableHTTPServerTransport
  /** Its GET stream, once the client has opened it. */
  readonly listening: ReturnType<typeof signalled<ServerResponse>>
}

/** The tools, resources and prompts have the names of those of the conformance server. */
function serverOf(sdk: Sdk, listening: Session['listening']['happened']): McpServer {
  const capabilities = { logging: {}, resources: { subscribe: true } }
  const server = new sdk.McpServer({ name: 'sdk', version: '1.0.0' }, { capabilities })
  addTools(server, sdk)
  addLogTools(server, sdk, listening)
  addAskingTools(server, sdk)
  addCancelledTools(server)
  server.server.setRequestHandler(sdk.SubscribeRequestSchema, () => ({}))
  server.server.setRequestHandler(sdk.UnsubscribeRequestSchema, () => ({}))
  const read = (uri: URL) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'A text.' }] })
  server.resource('text', 'test://static-text', read)
  const template = new sdk.ResourceTemplate('test://template/{id}/data', {
    list: undefined,
    complete: { id: (value) => ['one', 'two'].filter((id) => id.startsWith(value)) },
  })
  server.resource('template', template, read)
  server.prompt('test_simple_prompt', () => ({
    messages: [{ role: 'user', content: text('A simple prompt.') }],
  }))
  const { z, completable } = sdk
  const argument = completable(z.string(), (value) =>
    ['alpha', 'beta'].filter((name) => name.startsWith(value)),
  )
  server.prompt('test_prompt_with_arguments', { arg1: argument, arg2: z.string() }, ({ arg1, arg2 }) => ({
    messages: [{ role: 'user', content: text(`${arg1} and ${arg2}`) }],
  }))
  return server
}

function addTools(server: McpServer, { z }: Sdk): void {
  server.tool('test_simple_text', () => ({ content: [text('A simple text.')] }))
  server.tool('test_sum', { a: z.number(), b: z.number() }, ({ a, b }) => ({
    content: [text(String(a + b))],
  }))
  server.tool('test_error_handling', () => ({ isError: true, content: [text('The tool fails.')] }))
  server.tool('test_tool_with_progress', async ({ _meta, sendNotification }) => {
    const progressToken = _meta?.progressToken
    for (const progress of [0, 50, 100]) {
      if (progressToken === undefined) break
      await sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 100 },
      })
    }
    return { content: [text('done')] }
  })
}

/** They send a notification on the GET stream. */
function addLogTools(server: McpServer, { z }: Sdk, listening: Session['listening']['happened']): void {
  const log = (line: string) =>
    server.server.notification({ method: 'notifications/message', params: { level: 'info', data: line } })
  server.tool('test_log', { line: z.string() }, async ({ line }) => {
    await listening
    await log(line)
    return { content: [text('logged')] }
  })
  server.tool('test_log_and_cut', { line: z.string() }, async ({ line }) => {
    const stream = await listening
    // What is sent now is lost on the way, so only a resumed stream has it.
    stream.write = () => true
    await log(line)
    stream.destroy()
    return { content: [text('cut')] }
  })
}

/** They ask the client for something, and respond with what they got. */
function addAskingTools(server: McpServer, { CreateMessageResultSchema, ElicitResultSchema }: Sdk): void {
  server.tool('test_sampling', async ({ sendRequest }) => {
    const messages = [{ role: 'user' as const, content: text('Say something.') }]
    const request = { method: 'sampling/createMessage' as const, params: { messages, maxTokens: 10 } }
    return { content: [text(JSON.stringify(await sendRequest(request, CreateMessageResultSchema)))] }
  })
  if (ElicitResultSchema === undefined) return
  server.tool('test_elicitation', async ({ sendRequest }) => {
    const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
    const params = { message: 'Your name?', requestedSchema }
    const asked = await sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema)
    return { content: [text(JSON.stringify(asked))] }
  })
}

/** One runs until it is cancelled, and the other until that has happened. */
function addCancelledTools(server: McpServer): void {
  const cancelled = signalled()
  server.tool('test_wait', async ({ _meta, signal, sendNotification }) => {
    signal.addEventListener('abort', () => cancelled.resolve())
    const { progressToken = '' } = _meta ?? {}
    await sendNotification({ method: 'notifications/progress', params: { progressToken, progress: 1 } })
    await cancelled.happened
    return { content: [] }
  })
  server.tool('test_cancelled', async () => {
    await cancelled.happened
    return { content: [text('cancelled')] }
  })
}

/** Events in the order in which they were stored. */
function eventStore(): EventStore {
  const events: { id: string; stream: string; message: Parameters<EventStore['storeEvent']>[1] }[] = []
  return {
    async storeEvent(stream, message) {
      const id = String(events.length)
      events.push({ id, stream, message })
      return id
    },
    async replayEventsAfter(last, { send }) {
      const from = events.findIndex(({ id }) => id === last)
      const stream = events[from]?.stream
      if (stream === undefined) throw new Error('no such event')
      for (const event of events.slice(from + 1)) {
        if (event.stream === stream) await send(event.id, event.message)
      }
      return stream
    },
  }
}

export interface RevisionServer extends AsyncDisposable {
  readonly url: string
}

/** The server of the release whose newest revision this is. */
export async function startRevisionServer(revision: HandshakeRevision): Promise<RevisionServer> {
  const sdk = await sdkOf(revision)
  const sessions = new Map<string, Session>()

  async function handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = message.headers['mcp-session-id']
    if (id !== undefined) {
      const known = sessions.get(String(id))
      if (known !== undefined) {
        if (message.method === 'GET') known.listening.resolve(response)
        return known.transport.handleRequest(message, response)
      }
      const error = { code: -32001, message: 'Session not found' }
      response.writeHead(404, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', error, id: null }))
      return
    }
    const listening = signalled<ServerResponse>()
    const transport = new sdk.StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: eventStore(),
      onsessioninitialized: (begun) => {
        sessions.set(begun, { transport, listening })
      },
    })
    await serverOf(sdk, listening.happened).connect(transport)
    transport.onclose = () => {
      if (transport.sessionId !== undefined) sessions.delete(transport.sessionId)
    }
    await transport.handleRequest(message, response)
  }

  const server = createServer((message, response) => {
    handle(message, response).catch(() => response.destroy())
  })
  const listening = await listenOnLoopback(server)
  return {
    url: `${listening.url}/mcp`,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}
