import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  McpError,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startEverything } from '../../support/everything.js'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp, readUntil } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { rejectionOf } from '../../support/rejection.js'

const everything = 'mcp://everything'

/** Entries of one server without one of each kind, and none of the other server. */
const entitlements = {
  default_plan: 'free',
  plans: { free: {} },
  tenants: {
    acme: {
      plan: 'free',
      allowlist: [`${everything}/*`],
      denylist: [
        'everything/get-env',
        'everything/prompts/args-prompt',
        `everything/resources/demo://resource/static/document/architecture.md`,
        `everything/resources/demo://resource/dynamic/blob/*`,
      ],
    },
  },
}

/** A client that shows the HTTP messages. */
function rawClient(url: string) {
  let session: Record<string, string> = {}
  return {
    async post(message: object): Promise<string> {
      const response = await postMcp(url, message, session)
      session = {
        'mcp-session-id': response.headers.get('mcp-session-id') ?? session['mcp-session-id'] ?? '',
      }
      return response.text()
    },
    /** Reads the stream after `lastEvent` until `awaited` has come. */
    async resume(lastEvent: string, awaited: string): Promise<string> {
      const headers = { accept: 'text/event-stream', ...session, 'last-event-id': lastEvent }
      return readUntil(await fetch(url, { headers }), awaited)
    },
  }
}

describe('a client of the MCP SDK through the gateway to the reference server', function () {
  this.timeout(60_000)
  const open: Client[] = []

  const server = ofSuite(() => startEverything())
  const gateway = ofSuite(() =>
    startTestGateway({ targets: { everything: server.url, other: server.url }, entitlements }),
  )

  afterEach(async () => {
    for (const client of open.splice(0)) await client.close()
  })

  function transportTo(target = 'everything', headers: Record<string, string> = {}) {
    return new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp/${target}`), {
      requestInit: { headers },
    })
  }

  async function connect(transport = transportTo()) {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { capabilities: { sampling: {}, elicitation: {} } },
    )
    open.push(client)
    await client.connect(transport)
    return { client, transport }
  }

  /** The records of what `act` did. */
  async function recorded(act: () => Promise<unknown>) {
    const before = gateway.records().length
    await act()
    const records = gateway.records().slice(before)
    // The SDK's client may open its GET stream later.
    return records.filter((record) => !record.tool.startsWith('GET@'))
  }

  const refused = async (act: Promise<unknown>): Promise<McpError> => {
    const error = await rejectionOf(act)
    if (!(error instanceof McpError)) throw new Error('it was not refused', { cause: error })
    return error
  }

  it("gets the server's own handshake", async () => {
    const [record] = await recorded(async () => {
      const { client, transport } = await connect()
      expect(client.getServerVersion()).to.include({ name: 'mcp-servers/everything', version: '2.0.0' })
      expect(transport.sessionId).to.be.a('string')
    })
    expect(record).to.include({
      mcp_method: 'initialize',
      server: 'everything@2.0.0',
      tool: 'initialize@2.0.0',
      status: 'ok',
    })
  })

  it('lists and calls tools, each call one record', async () => {
    const { client } = await connect()
    const { tools } = await client.listTools()
    expect(tools.map((tool) => tool.name))
      .to.include.members(['echo', 'get-sum'])
      .and.not.include('get-env')
    const records = await recorded(async () => {
      const result = await client.callTool({ name: 'echo', arguments: { message: 'hello' } })
      expect(result.content).to.deep.equal([{ type: 'text', text: 'Echo: hello' }])
    })
    expect(records).to.have.length(1)
    expect(records[0]).to.deep.include({
      server: 'everything@2.0.0',
      tool: 'echo@2.0.0',
      mcp_method: 'tools/call',
      status: 'ok',
    })
    expect(records[0]).to.not.have.property('error')
    expect(records[0]?.output_sha256).to.match(/^[0-9a-f]{64}$/)
    expect(records[0]?.policy).to.include({ decision: 'allow' })
  })

  it('cannot call a denied tool, which is recorded', async () => {
    const { client } = await connect()
    const [record] = await recorded(async () => {
      const error = await refused(client.callTool({ name: 'get-env', arguments: {} }))
      expect(error.code).to.equal(403)
      expect(error.data).to.include({
        error: 'TOOL_NOT_ALLOWED',
        denial_reason: 'tool_in_denylist',
        sent: false,
      })
    })
    expect(record).to.deep.include({ tool: 'get-env@2.0.0', status: 'error', error: 'TOOL_NOT_ALLOWED' })
    expect(record?.policy).to.include({ decision: 'deny' })
  })

  it('records a failing tool as an error', async () => {
    const { client } = await connect()
    const [record] = await recorded(async () => {
      const result = await client.callTool({ name: 'get-sum', arguments: { a: 'x' } })
      expect(result.isError).to.equal(true)
    })
    expect(record).to.include({ status: 'error', error: 'UPSTREAM', tool: 'get-sum@2.0.0' })
  })

  it('lists and gets prompts, but not the denied one', async () => {
    const { client } = await connect()
    const { prompts } = await client.listPrompts()
    expect(prompts.map((prompt) => prompt.name))
      .to.include('simple-prompt')
      .and.not.include('args-prompt')
    const [record] = await recorded(() => client.getPrompt({ name: 'simple-prompt' }))
    expect(record).to.include({ mcp_method: 'prompts/get', tool: 'simple-prompt@2.0.0', status: 'ok' })
    const error = await refused(client.getPrompt({ name: 'args-prompt', arguments: { city: 'B' } }))
    expect(error.code).to.equal(403)
  })

  it('lists and reads resources and templates, but not the denied ones', async () => {
    const { client } = await connect()
    const { resources } = await client.listResources()
    const uris = resources.map((resource) => resource.uri)
    expect(uris.some((uri) => uri.endsWith('features.md'))).to.equal(true)
    expect(uris.some((uri) => uri.endsWith('architecture.md'))).to.equal(false)
    const { resourceTemplates } = await client.listResourceTemplates()
    expect(resourceTemplates.map((template) => template.uriTemplate)).to.deep.equal([
      'demo://resource/dynamic/text/{resourceId}',
    ])
    const read = await client.readResource({ uri: 'demo://resource/dynamic/text/1' })
    expect(read.contents[0]).to.include({ uri: 'demo://resource/dynamic/text/1' })
    const error = await refused(client.readResource({ uri: 'demo://resource/dynamic/blob/1' }))
    expect(error.data).to.include({ error: 'TOOL_NOT_ALLOWED' })
  })

  it('completes arguments under the reference of the prompt or resource', async () => {
    const { client } = await connect()
    const argument = { name: 'department', value: 'E' }
    const [record] = await recorded(async () => {
      const { completion } = await client.complete({
        ref: { type: 'ref/prompt', name: 'completable-prompt' },
        argument,
      })
      expect(completion.values).to.include('Engineering')
    })
    expect(record).to.include({ mcp_method: 'completion/complete', tool: 'completable-prompt@2.0.0' })
    const error = await refused(
      client.complete({ ref: { type: 'ref/prompt', name: 'args-prompt' }, argument }),
    )
    expect(error.code).to.equal(403)
  })

  it('gets progress notifications while a tool runs', async () => {
    const { client } = await connect()
    const progress: number[] = []
    const result = await client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.05, steps: 3 } },
      undefined,
      { onprogress: (update) => progress.push(update.progress) },
    )
    expect(result.isError).to.not.equal(true)
    expect(progress).to.deep.equal([1, 2, 3])
  })

  it('gets requests for a sample and for input, and its responses reach the server', async () => {
    const { client } = await connect()
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'm',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: 'sampled' },
    }))
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' as const }))
    const records = await recorded(async () => {
      const sampled = await client.callTool({ name: 'trigger-sampling-request', arguments: { prompt: 'hi' } })
      expect(JSON.stringify(sampled.content)).to.include('sampled')
      const elicited = await client.callTool({ name: 'trigger-elicitation-request', arguments: {} })
      expect(JSON.stringify(elicited.content)).to.include('declined')
    })
    expect(records.map((record) => record.tool)).to.include('response@2.0.0')
  })

  it('gets notifications on its GET stream, which is recorded when it opens', async () => {
    const { client } = await connect()
    const uri = 'demo://resource/dynamic/text/1'
    const updated = new Promise<string>((resolve) => {
      client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri))
    })
    await client.subscribeResource({ uri })
    await client.callTool({ name: 'toggle-subscriber-updates', arguments: {} })
    expect(await updated).to.equal(uri)
    const opened = gateway.records().filter((record) => record.tool === 'GET@2.0.0')
    expect(opened.at(-1)).to.include({ status: 'ok', output_sha256: null })
    await client.callTool({ name: 'toggle-subscriber-updates', arguments: {} })
  })

  it('resumes an interrupted stream from its last event, and lists replayed there are filtered too', async () => {
    const raw = rawClient(`${gateway.url}/mcp/everything`)
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'raw', version: '1' },
    }
    const shaken = await raw.post({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
    const lastEvent = /^id: (.*)$/m.exec(shaken)?.[1] ?? ''
    await raw.post({ jsonrpc: '2.0', method: 'notifications/initialized' })
    await raw.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
    const call = { name: 'echo', arguments: { message: 'again' } }
    await raw.post({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: call })
    const replayed = await raw.resume(lastEvent, 'Echo: again')
    expect(replayed).to.include('"name":"get-sum"').and.not.include('get-env')
  })

  it('ends its session at the server', async () => {
    const { client, transport } = await connect()
    const session = transport.sessionId ?? ''
    const records = await recorded(() => transport.terminateSession())
    expect(records.at(-1)).to.include({ tool: 'DELETE@2.0.0', status: 'ok' })
    expect(transport.sessionId).to.equal(undefined)
    const stale = transportTo('everything', { 'mcp-session-id': session })
    const error = await stale
      .start()
      .then(() => stale.send({ jsonrpc: '2.0', id: 1, method: 'tools/list' }))
      .then(
        () => undefined,
        (reason: unknown) => reason,
      )
    expect(error).to.have.property('code', 400)
    await stale.close()
    expect(client.getServerVersion()).to.have.property('version', '2.0.0')
  })

  it('gets 404 for a server that does not exist', async () => {
    const error = await rejectionOf(connect(transportTo('nowhere')))
    expect(error).to.be.instanceOf(McpError).and.have.property('code', 404)
  })
})
