// An MCP server of SDK 2.x with what the scenarios of the public conformance suites use; it serves both eras.
import { createServer, type IncomingMessage } from 'node:http'
import { completable, createMcpHandler, McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { listenOnLoopback } from './loopback.js'

/** A PNG and a WAV of a few bytes. */
const image =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const audio = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

const text = (value: string) => ({ type: 'text' as const, text: value })
const embedded = {
  type: 'resource' as const,
  resource: {
    uri: 'test://embedded-resource',
    mimeType: 'text/plain',
    text: 'This is an embedded resource.',
  },
}

function conformanceServer(): McpServer {
  const server = new McpServer({ name: 'conformance', version: '1.0.0' })
  addTools(server)
  addResources(server)
  addTemplates(server)
  addPrompts(server)
  return server
}

function addTools(server: McpServer): void {
  server.registerTool('test_simple_text', { description: 'Text' }, () => ({
    content: [text('This is a simple text response for testing.')],
  }))
  const inputSchema = z.object({ a: z.number(), b: z.number() })
  server.registerTool('test_sum', { description: 'A sum', inputSchema }, ({ a, b }) => ({
    content: [text(String(a + b))],
  }))
  server.registerTool('test_image_content', { description: 'An image' }, () => ({
    content: [{ type: 'image', data: image, mimeType: 'image/png' }],
  }))
  server.registerTool('test_audio_content', { description: 'A sound' }, () => ({
    content: [{ type: 'audio', data: audio, mimeType: 'audio/wav' }],
  }))
  server.registerTool('test_embedded_resource', { description: 'A resource' }, () => ({
    content: [embedded],
  }))
  server.registerTool('test_multiple_content_types', { description: 'All of them' }, () => ({
    content: [
      text('Multiple content types test:'),
      { type: 'image', data: image, mimeType: 'image/png' },
      embedded,
    ],
  }))
  server.registerTool('test_error_handling', { description: 'An error' }, () => ({
    isError: true,
    content: [text('This tool intentionally returns an error for testing')],
  }))
  server.registerTool('test_tool_with_progress', { description: 'Progress' }, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken
    for (const progress of [0, 50, 100]) {
      if (progressToken === undefined) break
      await mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 100 },
      })
    }
    return { content: [text('done')] }
  })
}

function addResources(server: McpServer): void {
  server.registerResource('text', 'test://static-text', { mimeType: 'text/plain' }, (uri) => ({
    contents: [
      { uri: uri.href, mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    ],
  }))
  server.registerResource('binary', 'test://static-binary', { mimeType: 'image/png' }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'image/png', blob: image }],
  }))
}

function addTemplates(server: McpServer): void {
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined })
  server.registerResource('template', template, { mimeType: 'application/json' }, (uri, { id }) => ({
    contents: [
      {
        uri: uri.href,
        mimeType: 'application/json',
        text: JSON.stringify({ id, data: `Data for ID: ${id}` }),
      },
    ],
  }))
}

function addPrompts(server: McpServer): void {
  server.registerPrompt('test_simple_prompt', { description: 'No arguments' }, () => ({
    messages: [{ role: 'user', content: text('This is a simple prompt for testing.') }],
  }))
  const completed = completable(z.string(), (value) =>
    ['alpha', 'beta'].filter((name) => name.startsWith(value)),
  )
  const argsSchema = z.object({ arg1: completed, arg2: z.string() })
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'Two', argsSchema },
    ({ arg1, arg2 }) => ({
      messages: [{ role: 'user', content: text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`) }],
    }),
  )
  server.registerPrompt('test_prompt_with_embedded_resource', { description: 'A resource' }, () => ({
    messages: [{ role: 'user', content: embedded }],
  }))
  server.registerPrompt('test_prompt_with_image', { description: 'An image' }, () => ({
    messages: [{ role: 'user', content: { type: 'image', data: image, mimeType: 'image/png' } }],
  }))
}

export interface ConformanceServer extends AsyncDisposable {
  readonly url: string
}

export async function startConformanceServer(): Promise<ConformanceServer> {
  const handler = createMcpHandler(conformanceServer)
  const server = createServer((message, response) => {
    void (async () => {
      if (!isLoopback(message.headers.host)) {
        response.writeHead(403).end()
        return
      }
      const fetched = await handler.fetch(await requestOf(message))
      response.writeHead(fetched.status, Object.fromEntries(fetched.headers))
      response.flushHeaders()
      for await (const piece of fetched.body ?? []) response.write(piece)
      response.end()
    })().catch(() => response.destroy())
  })
  const listening = await listenOnLoopback(server)
  return {
    url: `${listening.url}/mcp`,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}

/** DNS rebinding: a page elsewhere may have bound its own name to this address. */
function isLoopback(host: string | undefined): boolean {
  return /^(?:127\.0\.0\.1|localhost)(?::\d+)?$/.test(host ?? '')
}

async function requestOf(message: IncomingMessage): Promise<Request> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  const headers = Object.entries(message.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ])
  const body = pieces.length === 0 ? {} : { body: Buffer.concat(pieces) }
  const {
    method = 'GET',
    url = '/',
    headers: { host },
  } = message
  return new Request(`http://${host}${url}`, { method, headers, ...body })
}
