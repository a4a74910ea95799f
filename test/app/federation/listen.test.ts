import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { postStateless, readUntil } from '../../support/mcp-post.js'
import { startSessionServer } from '../../support/tool-servers.js'

const method = 'subscriptions/listen'
const notes = (count: number) => ({
  notifications: {
    resourceSubscriptions: Array.from({ length: count }, (_, at) => `svc:notes/note://${at}`),
  },
})

describe('subscriptions/listen at several servers', () => {
  it('names at most 1000 resources, because a server may get a request for each', async () => {
    await using server = await startSessionServer('notes', () => undefined)
    await using gateway = await startTestGateway({ targets: { notes: server.url } })
    const response = await postStateless(`${gateway.url}/mcp`, method, notes(1_001))
    expect(response.headers.get('content-type')).to.equal('application/json')
    expect(await response.json()).to.have.nested.property('error.code', -32602)
    expect(gateway.records().map(({ mcp_method }) => mcp_method)).to.deep.equal([method])
  })

  it('is one call to a server with sessions, which gets a request for each resource', async () => {
    const register = ({ server }: McpServer): void =>
      server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        if (params.uri === 'note://7') throw new Error('no such note')
        return {}
      })
    await using server = await startSessionServer('notes', register, { resources: { subscribe: true } })
    await using gateway = await startTestGateway({ targets: { notes: server.url } })
    const ended = new AbortController()
    const response = await postStateless(`${gateway.url}/mcp`, method, notes(100), { signal: ended.signal })
    const acknowledged = await readUntil(response, '\n\n').finally(() => ended.abort())
    expect(acknowledged.match(/note:\/\/\d+"/g)).to.have.length(99)
    expect(acknowledged).not.to.include('note://7"')
    expect(server.methods.filter((one) => one === 'resources/subscribe')).to.have.length(100)
    const recorded = gateway.records().map(({ mcp_method }) => mcp_method)
    expect(recorded.filter((one) => one === method)).to.have.length(1)
    expect(recorded).not.to.include('resources/subscribe')
  })
})
