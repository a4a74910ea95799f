// An MCP server over stdio, governed by the policy beside it: `erase` is neither listed nor run.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { governServer } from 'svc-sdk/mcp'
import { z } from 'zod'

const policyFile = process.argv[2] ?? 'policy.yaml'
const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] })

const server = new McpServer({ name: 'calc', version: '1.0.0' })
server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) => text(a + b))
server.registerTool('erase', {}, () => text('erased'))

const governed = governServer(server, { policyFile })
await governed.ready()
await server.connect(new StdioServerTransport())
server.server.onclose = () => void governed.close()
