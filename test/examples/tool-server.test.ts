import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { startToolServer, type ToolServer } from '@svc/example-quick-start/tool-server'
import { expect } from 'chai'

describe('the example tool server', () => {
  let server: ToolServer
  const clients: Client[] = []

  beforeEach(async () => {
    server = await startToolServer()
  })

  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()))
    await server.close()
  })

  async function connect(): Promise<Client> {
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
    clients.push(client)
    return client
  }

  function invoke(toolAtVersion: string, body: string): Promise<Response> {
    return fetch(`${server.url}/invoke/${toolAtVersion}`, { method: 'POST', body })
  }

  it('offers four tools, a resource and a prompt, and says which tools only read', async () => {
    const client = await connect()
    const { tools } = await client.listTools()
    expect(tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint])).to.deep.equal([
      ['list_invoices', true],
      ['get_invoice', true],
      ['refund_payment', false],
      ['delete_customer', false],
    ])
    const { resources } = await client.listResources()
    expect(resources.map(({ uri }) => uri)).to.deep.equal(['billing://refund-rules'])
    const prompt = await client.getPrompt({ name: 'explain_invoice', arguments: { invoice: 'INV-1001' } })
    expect(JSON.stringify(prompt.messages)).to.include('INV-1001')
  })

  it('returns the same over MCP and over plain HTTP', async () => {
    const client = await connect()
    const viaMcp = await client.callTool({ name: 'get_invoice', arguments: { invoice: 'INV-1003' } })
    const viaHttp = await invoke('get_invoice@1.0.0', '{"invoice":"INV-1003"}')
    expect(viaHttp.status).to.equal(200)
    expect(viaMcp.structuredContent).to.deep.equal(await viaHttp.json())
  })

  it('serves several sessions with the same data', async () => {
    const [first, second] = [await connect(), await connect()]
    await first.callTool({
      name: 'refund_payment',
      arguments: { invoice: 'INV-1001', amount: 420, reason: 'test' },
    })
    const seen = await second.callTool({ name: 'get_invoice', arguments: { invoice: 'INV-1001' } })
    expect(seen.structuredContent).to.include({ status: 'refunded' })
    expect(server.refunds).to.deep.equal(['INV-1001'])
  })

  it('explains why it rejects arguments', async () => {
    const responses = [
      await invoke('get_invoice@1.0.0', '{"invoice":"INV-9999"}'),
      await invoke('get_invoice@1.0.0', '{"number":1}'),
      await invoke('get_invoice@1.0.0', 'not json'),
      await invoke('get_invoice@2.0.0', '{"invoice":"INV-1001"}'),
    ]
    expect(responses.map(({ status }) => status)).to.deep.equal([404, 400, 400, 404])
    expect(await responses[0]?.json()).to.deep.equal({ error: 'There is no invoice INV-9999.' })
  })

  it('takes a free port when the one asked for is in use', async () => {
    const taken = Number(new URL(server.url).port)
    const other = await startToolServer(taken)
    try {
      expect(new URL(other.url).port).not.to.equal(String(taken))
    } finally {
      await other.close()
    }
  })

  it('returns 404 for an unknown session', async () => {
    const response = await fetch(server.url, {
      method: 'POST',
      headers: { 'mcp-session-id': 'gone', 'content-type': 'application/json' },
      body: '{}',
    })
    expect(response.status).to.equal(404)
  })
})
