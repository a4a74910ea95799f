import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { connect1 } from '../../support/sdk-clients.js'
import { startSessionServer } from '../../support/tool-servers.js'

describe("the gateway's own requests for a client of several servers", () => {
  it("have unique ids in a server's session, even if they run at the same time", async () => {
    const text = { content: [{ type: 'text' as const, text: '' }] }
    await using server = await startSessionServer('notes', (sdk) => {
      sdk.registerTool('read', {}, () => text)
      sdk.registerPrompt('ask', {}, () => ({ messages: [] }))
      sdk.registerResource('page', 'test://page', {}, () => ({ contents: [] }))
    })
    await using gateway = await startTestGateway({ targets: { notes: server.url } })
    const client = await connect1(`${gateway.url}/mcp`)
    await Promise.all([client.listTools(), client.listPrompts(), client.listResources()])
    await client.close()
    const ids = gateway
      .records()
      .flatMap(({ mcp_method, rpc_id }) => (mcp_method?.endsWith('/list') ? [rpc_id] : []))
    expect(ids).to.have.length.of.at.least(3)
    expect(new Set(ids).size).to.equal(ids.length)
  })
})
