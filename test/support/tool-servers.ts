// MCP servers with what a test registers, of the protocol's own SDKs: version 1 with sessions, version 2 without.
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer as McpServer2 } from '@modelcontextprotocol/server'

interface SdkServer extends AsyncDisposable {
  readonly url: string
  /** The methods that were requested, in their order. */
  readonly methods: string[]
}

export interface SessionServer extends SdkServer {
  /** One for each open session. */
  readonly sessions: ReadonlyMap<string, McpServer>
  /** Ends all sessions, as a restart of the server does. */
  forgetSessions(): void
  /** Refuses connections, until `up`. */
  down(): Promise<void>
  up(): Promise<void>
}

/** A server of SDK 1.x; `register` gives each session its tools. */
export async function startSessionServer(
  name: string,
  register: (server: McpServer) => void,
  capabilities: object = {},
): Promise<SessionServer> {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const sessions = new Map<string, McpServer>()
  const methods: string[] = []
  let begun = 0
  const begin = async (): Promise<StreamableHTTPServerTransport> => {
    const server = new McpServer({ name, version: '1.0.0' }, { capabilities, instructions: `Use ${name}.` })
    register(server)
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => `${name}-${++begun}`,
      onsessioninitialized(id) {
        transports.set(id, transport)
        sessions.set(id, server)
      },
      onsessionclosed(id) {
        transports.delete(id)
        sessions.delete(id)
      },
    })
    await server.connect(transport as Parameters<McpServer['connect']>[0])
    return transport
  }
  const http = createServer(async (message, response) => {
    const body = await bodyOf(message)
    note(methods, message, body)
    const id = message.headers['mcp-session-id']
    const known = typeof id === 'string' ? transports.get(id) : await begin()
    if (known === undefined) {
      response.writeHead(404).end()
      return
    }
    await known.handleRequest(message, response, body)
  })
  return {
    ...(await listening(http)),
    methods,
    sessions,
    forgetSessions() {
      transports.clear()
      sessions.clear()
    },
  }
}

export interface StatelessServer extends SdkServer {
  readonly notify: ReturnType<typeof createMcpHandler>['notify']
}

/** A server of SDK 2.x that speaks 2026-07-28 alone. */
export async function startStatelessServer(
  name: string,
  register: (server: McpServer2) => void,
  capabilities: object = {},
): Promise<StatelessServer> {
  const methods: string[] = []
  const handler = createMcpHandler(
    () => {
      const info = { name, version: '2.0.0' }
      const server = new McpServer2(info, { capabilities, instructions: `Use ${name}.` })
      register(server)
      return server
    },
    { legacy: 'reject' },
  )
  const http = createServer(async (message, response) => {
    const body = await bodyOf(message)
    note(methods, message, body)
    const aborted = new AbortController()
    response.on('close', () => aborted.abort())
    const fetched = await handler.fetch(requestOf(message, body, aborted.signal))
    await pipe(fetched, response)
  })
  return { ...(await listening(http)), methods, notify: handler.notify }
}

async function pipe(fetched: Response, response: ServerResponse): Promise<void> {
  response.writeHead(fetched.status, Object.fromEntries(fetched.headers))
  response.flushHeaders()
  try {
    for await (const piece of fetched.body ?? []) response.write(piece)
  } catch (error) {
    if (!response.destroyed) throw error
  }
  response.end()
}

function requestOf(
  { headers, method = 'GET', url = '/' }: IncomingMessage,
  body: unknown,
  signal: AbortSignal,
): Request {
  const fields = Object.entries(headers).map(([field, value]): [string, string] => [field, String(value)])
  const content = body === undefined ? {} : { body: JSON.stringify(body) }
  return new Request(`http://${headers.host}${url}`, { method, headers: fields, signal, ...content })
}

async function bodyOf(message: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  return pieces.length === 0 ? undefined : JSON.parse(Buffer.concat(pieces).toString())
}

function note(methods: string[], { method }: IncomingMessage, body: unknown): void {
  const asked = (body as { method?: string } | undefined)?.method
  methods.push(asked ?? method ?? '')
}

interface Listening extends Pick<SdkServer, 'url' | typeof Symbol.asyncDispose> {
  /** Refuses connections, until `up`. */
  down(): Promise<void>
  up(): Promise<void>
}

async function listening(http: HttpServer): Promise<Listening> {
  let port = 0
  const up = async (): Promise<void> => {
    await new Promise<void>((resolve) => http.listen(port, '127.0.0.1', resolve))
    port = (http.address() as AddressInfo).port
  }
  const down = async (): Promise<void> => {
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  }
  await up()
  return { url: `http://127.0.0.1:${port}/mcp`, up, down, [Symbol.asyncDispose]: down }
}
