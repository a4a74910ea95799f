// An MCP server over stdio of SDK 2.x. It speaks 2026-07-28, and by handshake unless the argument is `stateless`.
import { acceptedContent, inputRequired, McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const name = z.object({ name: z.string() })
const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] })

/** Asks the person at the client for a name. */
function ask({ mcpReq }: ServerContext) {
  const given = acceptedContent(mcpReq.inputResponses, 'given', name)
  if (given !== undefined) return text(given.name)
  const asked = inputRequired.elicit({ message: 'Name?', requestedSchema: name })
  return inputRequired({ inputRequests: { given: asked } })
}

serveStdio(
  ({ era }) => {
    const server = new McpServer({ name: 'two-era', version: '1.0.0' })
    server.registerTool('ask', {}, ask)
    server.registerTool('era', {}, () => text(era))
    return server
  },
  { legacy: process.argv[2] === 'stateless' ? 'reject' : 'serve' },
)
