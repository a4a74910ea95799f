import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { governServer } from 'svc-sdk/mcp'
import { z } from 'zod'
import { recordingTo } from '../../support/gateway.js'
import { refusalOf } from '../../support/rejection.js'

describe('a governed MCP server of version 2 of the SDK', () => {
  it('lists and runs allowed tools, and refuses others', async () => {
    const records: object[] = []
    const server = new McpServer({ name: 'calc', version: '2.0.0' })
    server.registerTool('add', { inputSchema: z.object({ a: z.number() }) }, ({ a }) => ({
      content: [{ type: 'text', text: String(a + 1) }],
    }))
    server.registerTool('wipe', {}, () => ({ content: [] }))
    const governed = governServer(server, {
      tenant: 'acme',
      quotas: { adapter: 'memory' },
      authn: { allowUnauthenticated: true },
      entitlements: { default_plan: 'free', plans: { free: { allowlist: ['calc/add'] } }, tenants: {} },
      ...recordingTo({ append: async (record) => void records.push(record) }),
    })
    const client = new Client({ name: 'test', version: '1' })
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    await server.connect(ours)
    await client.connect(theirs)
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(['add'])
    const { content } = await client.callTool({ name: 'add', arguments: { a: 1 } })
    expect(content).to.deep.equal([{ type: 'text', text: '2' }])
    const refused = await refusalOf(client.callTool({ name: 'wipe' }))
    expect(refused).to.include({ denial_reason: 'tool_not_in_allowlist' })
    await client.close()
    await governed.close()
    const calls = records.filter((record) => Reflect.get(record, 'mcp_method') === 'tools/call')
    expect(calls.map((record) => Reflect.get(record, 'tool'))).to.deep.equal(['add@2.0.0', 'wipe@2.0.0'])
  })
})
