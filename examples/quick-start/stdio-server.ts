// Small MCP servers over stdio, such as clients start themselves: `node stdio-server.js clock`, `dice` or `notes`.
import { randomInt } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'

const servers: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  clock: { now: () => new Date().toISOString() },
  dice: { roll: () => String(randomInt(1, 7)) },
  notes: { read: () => 'Call Harbour Bakery back.', erase: () => 'All notes are gone.' },
}

const [, , name = ''] = process.argv
const server = new McpServer({ name, version: '1.0.0' })
for (const [tool, run] of Object.entries(servers[name] ?? {})) {
  server.registerTool(tool, {}, () => ({ content: [{ type: 'text', text: run() }] }))
}
await server.connect(new StdioServerTransport())
