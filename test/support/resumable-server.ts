// An MCP server of SDK 1.x that stores its events, so that clients may resume its streams.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  type EventStore,
  StreamableHTTPServerTransport,
} from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { listenOnLoopback } from './loopback.js'
import { signalled } from './signalled.js'

export interface ResumableServer extends AsyncDisposable {
  readonly url: string
  /** The last event id with which each stream was resumed. */
  readonly resumptions: readonly string[]
  /** Ends the connections of its calls. */
  cut(): void
  /** Lets `report` return. */
  finish(): void
}

/**
 * Its tool `report` returns the text that it is given, `times` over, once a stream was resumed, or with `finish`; with `poll` it ends its stream first, as a
 * server does that wants to be polled.
 */
export async function startResumableServer(): Promise<ResumableServer> {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const resumptions: string[] = []
  const streams = new Set<ServerResponse>()
  const finished = signalled()

  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new Events((last) => {
        resumptions.push(last)
        // The transport knows the new stream once this has returned.
        setImmediate(finished.resolve)
      }),
      retryInterval: 10,
      onsessioninitialized: (id) => {
        sessions.set(id, transport)
      },
    })
    const server = new McpServer({ name: 'resumable', version: '3.1.0' })
    const inputSchema = { text: z.string(), poll: z.boolean().optional(), times: z.number().default(1) }
    server.registerTool('report', { inputSchema }, async ({ text, poll, times }, { closeSSEStream }) => {
      if (poll === true) closeSSEStream?.()
      await finished.happened
      return { content: [{ type: 'text', text: text.repeat(times) }] }
    })
    await server.connect(transport)
    return transport
  }

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { 'mcp-session-id': id } = request.headers
    const transport = sessions.get(String(id)) ?? (await open())
    if (request.method === 'POST') {
      streams.add(response)
      response.once('close', () => streams.delete(response))
    }
    await transport.handleRequest(request, response)
  }

  const http = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  const listening = await listenOnLoopback(http)
  return {
    url: `${listening.url}/mcp`,
    resumptions,
    cut: () => {
      for (const stream of streams) stream.destroy()
    },
    finish: () => finished.resolve(),
    async [Symbol.asyncDispose]() {
      for (const transport of sessions.values()) await transport.close()
      await listening[Symbol.asyncDispose]()
    },
  }
}

/** The number of an event is its id. */
class Events implements EventStore {
  #replayed: (last: string) => void
  #events: { readonly stream: string; readonly message: JSONRPCMessage }[] = []

  constructor(replayed: (last: string) => void) {
    this.#replayed = replayed
  }

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    return String(this.#events.push({ stream, message }) - 1)
  }

  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return this.#events[Number(id)]?.stream
  }

  async replayEventsAfter(
    last: string,
    { send }: { send(id: string, message: JSONRPCMessage): Promise<void> },
  ): Promise<string> {
    const stream = this.#events[Number(last)]?.stream ?? ''
    for (const [number, event] of this.#events.entries()) {
      if (number > Number(last) && event.stream === stream) await send(String(number), event.message)
    }
    this.#replayed(last)
    return stream
  }
}
