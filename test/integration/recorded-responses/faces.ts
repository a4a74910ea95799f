// The faces of the gateway as clients that make one call, and parse what they get.
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { createParser } from 'eventsource-parser'
import type { GatewaySettings } from 'svc-sdk'
import { governServer } from 'svc-sdk/mcp'
import { piecesOf, type Writer, type Writing } from './writing.js'

/** The response that a client got: its bytes, or the results that it parsed. */
type Got = { readonly bytes: Buffer } | { readonly results: readonly unknown[] }

export interface Face {
  open?(): Promise<void>
  call(id: number): Promise<Got>
  close?(): Promise<void>
}

const initializeParams = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'c', version: '1' },
}

async function post(
  url: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<{ head: Headers; bytes: Buffer }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(body),
  })
  return { head: response.headers, bytes: Buffer.from(await response.arrayBuffer()) }
}

export function invokeFace(url: string, body: object = {}): Face {
  return { call: async () => ({ bytes: (await post(url, {}, body)).bytes }) }
}

/** `argumentsOf` is for a server that has no other way to learn what to write. */
export function mcpFace(url: string, { name = 'tool', argumentsOf = () => ({}) as object } = {}): Face {
  const headers: Record<string, string> = {}
  return {
    async open() {
      const { head } = await post(
        url,
        {},
        { jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams },
      )
      headers['mcp-session-id'] = head.get('mcp-session-id') ?? ''
    },
    async call(id) {
      const params = { name, arguments: argumentsOf() }
      const { head, bytes } = await post(url, headers, { jsonrpc: '2.0', id, method: 'tools/call', params })
      const isEvent = head.get('content-type')?.startsWith('text/event-stream') === true
      const parsed: unknown[] = isEvent
        ? dataIn(bytes).map((data) => JSON.parse(data))
        : [JSON.parse(bytes.toString())]
      return { results: parsed.map((message) => (message as { result?: unknown }).result) }
    },
  }
}

/** The data of the events for which a client listens. */
function dataIn(bytes: Uint8Array): string[] {
  const found: string[] = []
  const parser = createParser({
    onEvent: ({ event = 'message', data }) => {
      if (event === 'message' && data !== '') found.push(data)
    },
  })
  // This parser waits for what follows a CR at the end.
  parser.feed(`${new TextDecoder('utf-8').decode(bytes)}\n`)
  return found
}

/** Arguments with which the scripted server over stdio writes its next response. */
export function stdioArguments(writer: Writer): object {
  const pieces = piecesOf(withoutLines(writer.write('$id')), false)
  return { pieces: pieces.map((piece) => piece.toString('base64')) }
}

/** A line end ends the message over stdio; in JSON it is white space alone. */
function withoutLines(writing: Writing): Writing {
  return { ...writing, json: writing.json.replaceAll('\n', ' ') }
}

/** A server of the program, behind `governServer`. */
export function governedFace(config: Omit<GatewaySettings, 'targets'>, writer: Writer): Face {
  const server = new Server({ name: 'own', version: '1.0.0' }, { capabilities: { tools: {} } })
  server.setRequestHandler(CallToolRequestSchema, () => writer.write('own').result as never)
  const governed = governServer(server as never, config)
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const waiting = new Map<unknown, (message: object) => void>()
  theirs.onmessage = (message) => waiting.get('id' in message ? message.id : undefined)?.(message)
  const ask = (id: unknown, method: string, params: object) =>
    new Promise<object>((resolve) => {
      waiting.set(id, resolve)
      void theirs.send({ jsonrpc: '2.0', id, method, params } as never)
    })
  return {
    async open() {
      await governed.ready()
      await server.connect(ours)
      await theirs.start()
      await ask('begin', 'initialize', initializeParams)
      await theirs.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    },
    async call(id) {
      // Transports of another process have text between them.
      const message = JSON.parse(
        JSON.stringify(await ask(id, 'tools/call', { name: 'tool', arguments: {} })),
      ) as { result: unknown }
      return { results: [message.result] }
    },
    async close() {
      await theirs.close()
      await governed.close()
    },
  }
}
