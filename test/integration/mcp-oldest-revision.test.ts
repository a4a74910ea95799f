// The oldest revision, 2024-11-05, in the SDK release that speaks it alone: as a client and as a server, over HTTP and stdio.
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { startRevisionServer } from '../support/mcp-revision-server.js'
import { sdkOf, stdioOf } from '../support/mcp-sdks.js'
import { connect1, connect2 } from '../support/sdk-clients.js'
import { StdioGateway } from '../support/stdio-gateway.js'
import { startSessionServer, startStatelessServer } from '../support/tool-servers.js'

const OLDEST = '2024-11-05'
const command = {
  command: process.execPath,
  args: [fileURLToPath(new URL('../support/oldest-server.js', import.meta.url))],
}
const say = ({ text }: { text: string }) => ({ content: [{ type: 'text' as const, text }] })

interface AnyClient {
  listTools(): Promise<{ tools: { name: string }[] }>
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<object>
  close(): Promise<void>
}

async function connectOldest(url: string): Promise<AnyClient> {
  const sdk = await sdkOf(OLDEST)
  const client = new sdk.Client({ name: 'oldest', version: '1.0.0' })
  await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)))
  return client
}

describe('a server or client of 2024-11-05', function () {
  this.timeout(120_000)
  let gateway: TestGateway
  let targets: Record<string, string | typeof command>
  const open: AsyncDisposable[] = []

  before(async () => {
    const oldest = await startRevisionServer(OLDEST)
    const sessions = await startSessionServer('sessions', (server) =>
      server.registerTool('say', { inputSchema: { text: z.string() } }, say),
    )
    const stateless = await startStatelessServer('stateless', (server) =>
      server.registerTool('say', { inputSchema: z.object({ text: z.string() }) }, say),
    )
    targets = { oldest: oldest.url, process: command, sessions: sessions.url, stateless: stateless.url }
    gateway = await startTestGateway({ targets })
    open.push(oldest, sessions, stateless, gateway)
  })

  after(async () => {
    for (const part of open.reverse()) await part[Symbol.asyncDispose]()
  })

  async function expectAll(client: AnyClient): Promise<void> {
    const { tools } = await client.listTools()
    const names = tools.map(({ name }) => name)
    const calls = {
      oldest__test_sum: [{ a: 1, b: 2 }, '3'],
      process__say: [{ text: 'a' }, 'a'],
      sessions__say: [{ text: 'b' }, 'b'],
      stateless__say: [{ text: 'c' }, 'c'],
    } as const
    expect(names).to.include.members(Object.keys(calls))
    for (const [name, [args, text]] of Object.entries(calls)) {
      const result = await client.callTool({ name, arguments: args })
      expect(result).to.have.nested.property('content[0].text', text)
    }
    await client.close()
  }

  for (const [who, connect] of Object.entries({
    'SDK 1.10': connectOldest,
    'SDK 1.x': connect1 as (url: string) => Promise<AnyClient>,
    'SDK 2.x': connect2 as (url: string) => Promise<AnyClient>,
  })) {
    it(`is served at /mcp with servers of all revisions: ${who}`, async () => {
      await expectAll(await connect(`${gateway.url}/mcp`))
    })
  }

  it('is served at the endpoint of one server: SDK 1.10', async () => {
    const client = await connectOldest(`${gateway.url}/mcp/sessions`)
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).to.deep.equal(['say'])
    const result = await client.callTool({ name: 'say', arguments: { text: 'hi' } })
    expect(result).to.have.nested.property('content[0].text', 'hi')
    await client.close()
  })

  for (const [endpoint, args, tool] of [
    ['a command of 2024-11-05', ['--name', 'own', '--', command.command, ...command.args], 'say'],
    ['all targets', [], 'process__say'],
  ] as const) {
    it(`is served by \`svc stdio\`: SDK 1.10 with ${endpoint}`, async () => {
      using stdio = new StdioGateway(
        `authn: { stdioCaller: { user: ada@example.com } }\nentitlements: open\ntargets: ${JSON.stringify(targets)}\n`,
      )
      const sdk = await sdkOf(OLDEST)
      const { StdioClientTransport } = await stdioOf(OLDEST)
      const client = new sdk.Client({ name: 'oldest', version: '1.0.0' })
      await client.connect(new StdioClientTransport({ ...stdio.command(args), stderr: 'inherit' }))
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.include(tool)
      const result = await client.callTool({ name: tool, arguments: { text: 'hi' } })
      expect(result).to.have.nested.property('content[0].text', 'hi')
      await client.close()
    })
  }
})
