// Clients of the handshake at /mcp/<server> of a server that speaks 2026-07-28 alone.
import { CompatibilityCallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { acceptedContent, inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { initialize } from '../../support/mcp-server.js'
import { ofSuite } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { startStatelessServer } from '../../support/tool-servers.js'
import { startUpstream } from '../../support/upstream.js'

const name = z.object({ name: z.string() })

describe('a client of the handshake at the endpoint of a server of 2026-07-28', function () {
  this.timeout(30_000)

  const server = ofSuite(() =>
    startStatelessServer('new', (sdk) => {
      sdk.registerTool('who', { title: 'Who' }, ({ mcpReq }) => {
        const given = acceptedContent(mcpReq.inputResponses, 'who', name)
        if (given !== undefined) return { content: [{ type: 'text', text: `Hello ${given.name}` }] }
        const who = inputRequired.elicit({ message: 'Who?', requestedSchema: name })
        return inputRequired({ inputRequests: { who } })
      })
      sdk.registerResource('r', 'note://1', {}, () => ({ contents: [{ uri: 'note://1', text: 'one' }] }))
    }),
  )
  const gateway = ofSuite(() => startTestGateway({ targets: { 'new server': server.url } }))

  it('has its names, its description and what it asks', async () => {
    await using client = await connect1(`${gateway.url}/mcp/new%20server`, {
      capabilities: { elicitation: {} },
      prepare: (one) =>
        one.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { name: 'Ada' } })),
    })
    expect(client.getServerVersion()).to.include({ name: 'new' })
    const { tools } = await client.listTools()
    expect(tools.map(({ name, title, _meta }) => ({ name, title, _meta }))).to.deep.equal([
      { name: 'who', title: 'Who', _meta: undefined },
    ])
    const { content } = await client.callTool({ name: 'who' })
    expect(content).to.deep.equal([{ type: 'text', text: 'Hello Ada' }])
    const { contents } = await client.readResource({ uri: 'note://1' })
    expect(contents).to.deep.include({ uri: 'note://1', text: 'one' })
    const unknown = client.request({ method: 'x/unknown' }, CompatibilityCallToolResultSchema)
    expect(await unknown.catch(({ code }) => code)).to.equal(-32601)
    expect(server.methods).to.include('x/unknown')
  })

  it('is not translated for a client of the same revision', async () => {
    await using client = await connect2(`${gateway.url}/mcp/new%20server`)
    expect((await client.listTools()).tools.map((tool) => tool.name)).to.deep.equal(['who'])
  })

  it('has the response of a server that accepts neither form of the handshake', async () => {
    await using upstream = await startUpstream((_call, response) => {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here')
    })
    await using other = await startTestGateway({ targets: { files: upstream.url } })
    const response = await fetch(`${other.url}/mcp/files`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(initialize),
    })
    expect([response.status, await response.text()]).to.deep.equal([404, 'nothing here'])
    expect(response.headers.get('mcp-session-id')).to.equal(null)
  })
})
