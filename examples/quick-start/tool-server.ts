// The tool server that the example gateway protects: an ordinary MCP server over Streamable HTTP, which does not know
// the gateway. It also serves plain `POST …/invoke/<tool>@<version>`, so that one `curl` line is enough to try it.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'
import { createBillingService, refundRules, type Tool, UnknownRecord } from './billing.js'
import { listen } from './listen.js'

export const VERSION = '1.0.0'
const PATH = '/billing'
const MAX_BODY_BYTES = 1_048_576

export interface ToolServer {
  /** The URL for `targets` of the policy. */
  readonly url: string
  /** Numbers of the invoices that were refunded. */
  readonly refunds: readonly string[]
  close(): Promise<void>
}

/** Listens on loopback, on `port`, or on a free port if that one is in use or 0. */
export async function startToolServer(port = 0): Promise<ToolServer> {
  const billing = createBillingService()
  const sessions = new Map<string, StreamableHTTPServerTransport>()

  const http = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname
    const responded =
      path === PATH
        ? serveMcp(request, response, sessions, billing.tools)
        : path.startsWith(`${PATH}/invoke/`)
          ? serveInvoke(request, response, path.slice(`${PATH}/invoke/`.length), billing.tools)
          : Promise.resolve(respond(response, 404, { error: `Nothing at ${path}.` }))
    responded.catch((error: unknown) => {
      console.error('tool server:', error)
      if (!response.headersSent) respond(response, 500, { error: 'The tool server failed.' })
      else response.destroy()
    })
  })

  const bound = await listen(http, port)
  return {
    url: `http://127.0.0.1:${bound}${PATH}`,
    refunds: billing.refunds,
    close: async () => {
      await Promise.all([...sessions.values()].map((session) => session.close()))
      const closed = new Promise((resolve) => http.close(resolve))
      http.closeAllConnections()
      await closed
    },
  }
}

/** One MCP server object per session, as the SDK requires; all share the same invoices. */
async function serveMcp(
  request: IncomingMessage,
  response: ServerResponse,
  sessions: Map<string, StreamableHTTPServerTransport>,
  tools: readonly Tool[],
): Promise<void> {
  const id = request.headers['mcp-session-id']
  if (id !== undefined) {
    const session = sessions.get(String(id))
    if (session === undefined) return respond(response, 404, { error: 'No such session; send initialize.' })
    return session.handleRequest(request, response)
  }
  const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (created) => {
      sessions.set(created, transport)
    },
    onsessionclosed: (closed) => {
      sessions.delete(closed)
    },
  })
  const server = mcpServer(tools)
  await server.connect(transport)
  await transport.handleRequest(request, response)
  // The transport refuses a request other than `initialize`, so no later request will use this server.
  if (transport.sessionId === undefined) await server.close()
}

function mcpServer(tools: readonly Tool[]): McpServer {
  const server = new McpServer({ name: 'billing', version: VERSION })
  for (const { name, title, description, input, readOnly, run } of tools) {
    server.registerTool(
      name,
      {
        title,
        description,
        inputSchema: input,
        annotations: { readOnlyHint: readOnly, destructiveHint: !readOnly },
      },
      (args: unknown) => {
        const result = run(args)
        return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result }
      },
    )
  }
  server.registerResource(
    'refund_rules',
    'billing://refund-rules',
    {
      title: 'Refund rules',
      description: 'Which invoices can be refunded, and who approves it.',
      mimeType: 'text/plain',
    },
    (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: refundRules }] }),
  )
  server.registerPrompt(
    'explain_invoice',
    {
      title: 'Explain an invoice',
      description: 'Explains an invoice to a customer.',
      argsSchema: { invoice: z.string() },
    },
    ({ invoice }) => ({
      messages: [
        {
          role: 'user',
          content: { type: 'text', text: `Look up invoice ${invoice} and explain it to the customer.` },
        },
      ],
    }),
  )
  return server
}

/** `POST /billing/invoke/<tool>@<version>`: the arguments in, the result out, both plain JSON. */
async function serveInvoke(
  request: IncomingMessage,
  response: ServerResponse,
  toolAtVersion: string,
  tools: readonly Tool[],
): Promise<void> {
  const tool = tools.find(({ name }) => toolAtVersion === `${name}@${VERSION}`)
  if (request.method !== 'POST' || tool === undefined) {
    return respond(response, 404, { error: `No tool ${toolAtVersion} here.` })
  }
  try {
    respond(response, 200, tool.run(JSON.parse(await bodyOf(request))))
  } catch (error) {
    if (error instanceof UnknownRecord) respond(response, 404, { error: error.message })
    else if (error instanceof z.ZodError) respond(response, 400, { error: z.prettifyError(error) })
    else if (error instanceof SyntaxError) respond(response, 400, { error: 'The arguments are not JSON.' })
    else throw error
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > MAX_BODY_BYTES) throw new Error(`arguments of more than ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}
