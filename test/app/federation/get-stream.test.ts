import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListPromptsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { z } from 'zod'
import { startEverything } from '../../support/everything.js'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp, readUntil } from '../../support/mcp-post.js'
import { serverOf } from '../../support/mcp-server.js'
import { startResumableServer } from '../../support/resumable-server.js'
import { connect1 } from '../../support/sdk-clients.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { startSessionServer, startStatelessServer } from '../../support/tool-servers.js'
import { capabilities, done, sessionTools } from './session-tools.js'

describe('the GET stream at /mcp', () => {
  const initialize = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  }

  async function begin(url: string): Promise<Record<string, string>> {
    const response = await postMcp(url, initialize)
    await response.text()
    return { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '' }
  }

  it('is refused with 405 if no server has one', async () => {
    await using math = await startStatelessServer('math', (server) => {
      server.registerTool('add', { inputSchema: z.object({}) }, () => done)
    })
    await using gateway = await startTestGateway({
      targets: { math: math.url },
      entitlements: { default_plan: 'p', plans: { p: { allowlist: [] } }, tenants: {} },
    })
    const session = await begin(`${gateway.url}/mcp`)
    const response = await fetch(`${gateway.url}/mcp`, {
      headers: { accept: 'text/event-stream', ...session },
    })
    expect(response.status).to.equal(405)
    expect(response.headers.get('allow')).to.equal('POST, DELETE')
  })

  it('of one server is no error if the server has none', async () => {
    const { upstream } = await serverOf((_, response) => response.writeHead(405).end(), 'session-1')
    await using _ended = upstream
    await using gateway = await startTestGateway({ targets: { math: `mcp+${upstream.url}` } })
    const url = `${gateway.url}/mcp/math`
    const session = await begin(url)
    const response = await fetch(url, { headers: { accept: 'text/event-stream', ...session } })
    expect(response.status).to.equal(405)
    const record = gateway.records().find(({ tool }) => tool.startsWith('GET@'))
    expect(record).to.include({ status: 'ok' }).and.not.have.property('error')
  })

  for (const [path, tool] of [
    ['/mcp/files', 'changed'],
    ['/mcp', 'files__changed'],
  ] as const) {
    it(`begins with the changes of lists since the session began, of a server over stdio at ${path}`, async () => {
      await using gateway = await startTestGateway({ targets: { files: scriptedTarget() } })
      const url = `${gateway.url}${path}`
      const session = await begin(url)
      const call = { method: 'tools/call', params: { name: tool, arguments: {} } }
      await (await postMcp(url, { jsonrpc: '2.0', id: 1, ...call }, session)).text()
      const headers = { accept: 'text/event-stream', ...session }
      const stream = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) })
      expect(await readUntil(stream, 'list_changed')).to.include('notifications/tools/list_changed')
    })
  }

  it('begins with a change that came with a response to the gateway itself', async () => {
    await using one = await startSessionServer(
      'one',
      ({ server }) =>
        server.setRequestHandler(ListPromptsRequestSchema, async (_request, { sendNotification }) => {
          await sendNotification({ method: 'notifications/tools/list_changed' })
          return { prompts: [] }
        }),
      { prompts: {}, tools: { listChanged: true } },
    )
    await using gateway = await startTestGateway({ targets: { one: one.url } })
    const url = `${gateway.url}/mcp`
    const session = await begin(url)
    await (await postMcp(url, { jsonrpc: '2.0', id: 1, method: 'prompts/list' }, session)).text()
    const headers = { accept: 'text/event-stream', ...session }
    const stream = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) })
    expect(await readUntil(stream, 'list_changed')).to.include('notifications/tools/list_changed')
  })

  it('ends when the policy is replaced, and when the gateway closes', async () => {
    await using one = await startSessionServer('one', sessionTools('one'), capabilities)
    await using gateway = await startTestGateway({ targets: { one: one.url }, server: { drainMs: 0 } })
    const session = await begin(`${gateway.url}/mcp`)
    const open = () => fetch(`${gateway.url}/mcp`, { headers: { accept: 'text/event-stream', ...session } })
    const replaced = await open()
    await gateway.handle.reload({ targets: { one: one.url } })
    expect(await replaced.text()).to.equal(':\n\n')
    const closed = await open()
    expect(closed.status).to.equal(200)
    await gateway.handle.close()
    expect(await closed.text()).to.equal(':\n\n')
  })

  it('has the result of a call whose server ended the stream to be polled', async () => {
    await using server = await startResumableServer()
    await using one = await startSessionServer('one', sessionTools('one'), capabilities)
    await using gateway = await startTestGateway({ targets: { one: one.url, files: server.url } })
    await using client = await connect1(`${gateway.url}/mcp`)
    const args = { text: 'the report', poll: true }
    const result = await client.callTool({ name: 'files__report', arguments: args })
    expect(result.content).to.deep.equal([{ type: 'text', text: 'the report' }])
    expect(server.resumptions).to.have.length(1)
    const delivered = gateway
      .records()
      .filter(({ output_sha256, server: name }) => output_sha256 !== null && name.startsWith('files@'))
    expect(delivered.at(-1)).to.include({ status: 'ok', tool: 'report@3.1.0' })
  })

  it('resumes the stream of a server after the last event that the client got', async function () {
    this.timeout(60_000)
    await using everything = await startEverything()
    await using gateway = await startTestGateway({
      targets: { everything: everything.url, again: everything.url },
    })
    const url = `${gateway.url}/mcp`
    const session = await begin(url)
    const call = { name: 'again__echo', arguments: { message: 'hi' } }
    const response = await postMcp(
      url,
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call },
      session,
    )
    // The first event of a response has an id and no message.
    const [, primed = ''] = /^id: (.*)$/m.exec(await response.text()) ?? []
    const stopped = new AbortController()
    const headers = { accept: 'text/event-stream', ...session, 'last-event-id': primed }
    const resumed = await fetch(url, { headers, signal: stopped.signal })
    expect(await readUntil(resumed, '"id":1')).to.include('Echo: hi')
    stopped.abort()
  })
})

describe('the reference server among several at /mcp', function () {
  this.timeout(60_000)

  it('asks for samples and input, and reports progress', async () => {
    await using everything = await startEverything()
    await using gateway = await startTestGateway({
      targets: { everything: everything.url, again: everything.url },
    })
    await using client = await connect1(`${gateway.url}/mcp`, {
      capabilities: { sampling: {}, elicitation: {} },
    })
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'm',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: 'sampled' },
    }))
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' as const }))
    for (const [name, expected] of [
      ['everything__trigger-sampling-request', 'sampled'],
      ['again__trigger-sampling-request', 'sampled'],
      ['again__trigger-elicitation-request', 'declined'],
    ] as const) {
      const args = name.endsWith('sampling-request') ? { prompt: 'hi' } : {}
      const result = await client.callTool({ name, arguments: args })
      expect(JSON.stringify(result.content), name).to.include(expected)
    }
  })
})
