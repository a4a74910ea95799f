// An MCP server over HTTP without sessions: the SDK needs a server for each request, and all are governed by one pipeline.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createPipeline } from 'svc-sdk'
import { governServer } from 'svc-sdk/mcp'
import { z } from 'zod'

const policyFile = process.argv[2] ?? 'policy.yaml'
const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] })

const pipeline = createPipeline({ policyFile })
await pipeline.ready()

function governedServer(): McpServer {
  const server = new McpServer({ name: 'calc', version: '1.0.0' })
  server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) => text(a + b))
  server.registerTool('erase', {}, () => text('erased'))
  governServer(server, pipeline)
  return server
}

const http = createServer(async (request, response) => {
  const server = governedServer()
  const transport = new StreamableHTTPServerTransport({})
  response.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(request, response)
})
http.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}`)
})
process.once('SIGTERM', async () => {
  http.closeAllConnections()
  await pipeline.close()
  http.close()
})
