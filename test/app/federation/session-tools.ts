import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js'

export const done = { content: [{ type: 'text' as const, text: 'done' }] }

/** Tools, among them `ask`, which asks the client for a sample, and resources for subscriptions. */
export function sessionTools(name: string) {
  return (server: McpServer): void => {
    server.registerTool('read', {}, () => done)
    server.registerTool('ask', {}, async () => {
      const { content } = await server.server.createMessage({
        maxTokens: 1,
        messages: [{ role: 'user', content: { type: 'text', text: `of ${name}` } }],
      })
      return { content: [{ type: 'text', text: JSON.stringify(content) }] }
    })
    server.registerTool(
      'wait',
      {},
      ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(done))),
    )
    server.registerTool('progress', {}, async ({ _meta, sendNotification }) => {
      const progressToken = _meta?.progressToken ?? 0
      for (const progress of [1, 2]) {
        await sendNotification({ method: 'notifications/progress', params: { progressToken, progress } })
      }
      return done
    })
    server.registerResource('r', 'note://1', {}, () => ({ contents: [{ uri: 'note://1', text: name }] }))
    server.server.setRequestHandler(SubscribeRequestSchema, () => ({}))
  }
}
export const capabilities = { resources: { subscribe: true }, logging: {} }
