// An MCP server over stdio of the SDK release that speaks 2024-11-05 alone, as a command.
import { sdkOf, stdioOf } from './mcp-sdks.js'

const revision = '2024-11-05'
const sdk = await sdkOf(revision)
const { StdioServerTransport } = await stdioOf(revision)

const server = new sdk.McpServer({ name: 'oldest', version: '1.0.0' })
server.tool('say', { text: sdk.z.string() }, ({ text }) => ({ content: [{ type: 'text', text }] }))
await server.connect(new StdioServerTransport())
