// Clients of MCP SDK releases, behind one interface.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type HandshakeRevision, sdkOf } from './mcp-sdks.js'

interface Progress {
  readonly progress: number
}

/** What the releases have in common; 2.x differs from 1.x only in how it takes options and handlers. */
export interface McpClient extends AsyncDisposable {
  readonly requests: {
    getServerVersion(): unknown
    getServerCapabilities(): unknown
    getInstructions(): unknown
    ping(): Promise<unknown>
    listTools(): Promise<unknown>
    listResources(): Promise<unknown>
    listResourceTemplates(): Promise<unknown>
    listPrompts(): Promise<unknown>
    callTool(params: { name: string; arguments?: Record<string, unknown> }): Promise<unknown>
    readResource(params: { uri: string }): Promise<unknown>
    subscribeResource(params: { uri: string }): Promise<unknown>
    unsubscribeResource(params: { uri: string }): Promise<unknown>
    getPrompt(params: { name: string; arguments?: Record<string, string> }): Promise<unknown>
    complete(params: {
      ref: { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string }
      argument: { name: string; value: string }
    }): Promise<unknown>
    setLoggingLevel(level: 'info'): Promise<unknown>
  }
  callWithProgress(
    name: string,
    onprogress: (progress: Progress) => void,
    signal?: AbortSignal,
  ): Promise<unknown>
  /** Called for each log message of the server. */
  onLog(handler: (data: unknown) => void): void
  sessionId(): string | undefined
  endSession(): Promise<void>
}

const sample = {
  model: 'm',
  role: 'assistant' as const,
  content: { type: 'text' as const, text: 'Sampled.' },
}
const elicited = { action: 'accept' as const, content: { name: 'Ada' } }
const capabilities = { sampling: {}, elicitation: {} }
const info = { name: 'test', version: '1.0.0' }
const reconnectionOptions = {
  initialReconnectionDelay: 1,
  maxReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2,
}

/** A client of the 1.x release whose newest revision this is. It responds to requests of the server. */
export async function connectSdk1(revision: HandshakeRevision, url: string): Promise<McpClient> {
  const sdk = await sdkOf(revision)
  const client = new sdk.Client(info, { capabilities })
  client.setRequestHandler(sdk.CreateMessageRequestSchema, () => sample)
  if (sdk.ElicitRequestSchema !== undefined) client.setRequestHandler(sdk.ElicitRequestSchema, () => elicited)
  const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { reconnectionOptions })
  await client.connect(transport)
  return {
    requests: client,
    callWithProgress: (name, onprogress, signal) =>
      client.callTool({ name }, undefined, { onprogress, ...(signal === undefined ? {} : { signal }) }),
    onLog: (handler) =>
      client.setNotificationHandler(sdk.LoggingMessageNotificationSchema, ({ params }) =>
        handler(params.data),
      ),
    sessionId: () => transport.sessionId,
    endSession: () => transport.terminateSession(),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

/** A client of the present 2.x release, with a handshake or by the revision without one. It responds to requests of the server. */
export async function connectSdk2(
  mode: 'legacy' | 'auto' | { readonly pin: string },
  url: string,
): Promise<McpClient & { readonly client: Client }> {
  const client = new Client(info, { capabilities, versionNegotiation: { mode } })
  client.setRequestHandler('sampling/createMessage', () => sample)
  client.setRequestHandler('elicitation/create', () => elicited)
  const transport = new StreamableHTTPClientTransport(new URL(url), { reconnectionOptions })
  await client.connect(transport)
  return {
    client,
    requests: client,
    callWithProgress: (name, onprogress, signal) =>
      client.callTool({ name }, { onprogress, ...(signal === undefined ? {} : { signal }) }),
    onLog: (handler) =>
      client.setNotificationHandler('notifications/message', ({ params }) => handler(params.data)),
    sessionId: () => transport.sessionId,
    endSession: () => transport.terminateSession(),
    [Symbol.asyncDispose]: () => client.close(),
  }
}
