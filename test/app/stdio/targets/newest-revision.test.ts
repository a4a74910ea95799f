// A process is opened in the newest revision that it and its client speak.
import { Client as Client2 } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { connect1, connect2 } from '../../../support/sdk-clients.js'
import { StdioGateway } from '../../../support/stdio-gateway.js'
import { connect, say, scriptedTarget, twoEraTarget, withStdio } from '../../../support/stdio-target.js'
import { ada } from '../../cli/stdio-servers.js'

const capabilities = { elicitation: {} }
const given = { action: 'accept' as const, content: { name: 'Ada' } }

interface Caller {
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>
  close(): Promise<void>
}

const clients = {
  '2025-11-25': (url: string) =>
    connect1(url, {
      capabilities,
      prepare: (client) => client.setRequestHandler(ElicitRequestSchema, () => given),
    }),
  '2026-07-28': async (url: string) => {
    const client = await connect2(url, { capabilities })
    client.setRequestHandler('elicitation/create', () => given)
    return client
  },
}

/** What a tool says, or its error. */
async function said(client: Caller, name: string): Promise<string> {
  const result = await client.callTool({ name, arguments: {} })
  return (result as { content: { text: string }[] }).content[0]?.text ?? ''
}

/** The era of a process of both, by client and `isolate`. */
const rows: [keyof typeof clients, 'gateway' | 'principal' | 'session', 'modern' | 'legacy'][] = [
  ['2026-07-28', 'gateway', 'modern'],
  ['2026-07-28', 'principal', 'modern'],
  ['2026-07-28', 'session', 'modern'],
  ['2025-11-25', 'gateway', 'modern'],
  ['2025-11-25', 'session', 'legacy'],
]

for (const [revision, isolate, era] of rows) {
  describe(`a process of both eras with isolate: ${isolate}, and a client of ${revision}`, function () {
    this.timeout(60_000)
    let gateway: TestGateway
    before(async () => {
      gateway = await startTestGateway({ targets: { files: twoEraTarget('', { isolate }) } })
    })
    after(() => gateway[Symbol.asyncDispose]())

    it(`is opened in its ${era} era, and asks the client at /mcp`, async () => {
      const client: Caller = await clients[revision](`${gateway.url}/mcp`)
      expect(await said(client, 'files__era')).to.equal(era)
      expect(await said(client, 'files__ask')).to.equal('Ada')
      await client.close()
    })

    it('lists and calls tools at /mcp/files, and asks the client there', async () => {
      const client: Caller = await clients[revision](`${gateway.url}/mcp/files`)
      expect(await said(client, 'era')).to.equal(era)
      expect(await said(client, 'ask')).to.equal('Ada')
      await client.close()
    })
  })
}

describe('svc stdio before a process of both eras', function () {
  this.timeout(60_000)
  const { command, args = [] } = twoEraTarget()
  const own = ['--name', 'files', '--', command, ...args]

  it('lets it ask a client of 2026-07-28, in that revision', async () => {
    using gateway = new StdioGateway(`${ada}entitlements: open\n`)
    const client = new Client2(
      { name: 'test', version: '1' },
      { capabilities, versionNegotiation: { mode: 'auto' } },
    )
    client.setRequestHandler('elicitation/create', () => given)
    await client.connect(new StdioClientTransport(gateway.command(own)))
    try {
      expect(await said(client, 'era')).to.equal('modern')
      expect(await said(client, 'ask')).to.equal('Ada')
    } finally {
      await client.close()
    }
  })

  it('lets it ask a client of 2025-11-25, by handshake', async () => {
    using gateway = new StdioGateway(`${ada}entitlements: open\n`)
    await using connected = await gateway.serve(
      { name: 'files', command: { server: 'files', command, args, env: [] } },
      { capabilities },
    )
    const { client } = connected
    client.setRequestHandler(ElicitRequestSchema, () => given)
    expect(await said(client, 'era')).to.equal('legacy')
    expect(await said(client, 'ask')).to.equal('Ada')
  })

  it('lets one that speaks 2026-07-28 alone ask a client of 2025-11-25, if it serves all targets', async () => {
    const targets = JSON.stringify({ files: twoEraTarget('stateless') })
    using gateway = new StdioGateway(`${ada}entitlements: open\ntargets: ${targets}\n`)
    await using connected = await gateway.serve({}, { capabilities })
    const { client } = connected
    client.setRequestHandler(ElicitRequestSchema, () => given)
    expect(await said(client, 'files__ask')).to.equal('Ada')
  })
})

describe('a process that knows initialize alone', () => {
  it('is opened by it if it responds to the probe with an error', async () => {
    await withStdio(scriptedTarget(), async (gateway) => {
      await using client = await connect(gateway)
      expect(JSON.parse(await say(client, 'capabilities'))).to.deep.equal({})
    })
  })

  for (const [mode, how] of [
    ['fragile', 'exits on the probe'],
    ['deaf', 'does not respond to the probe'],
  ] as const) {
    it(`is opened by it if it ${how}, and is probed once, until a reload`, async () => {
      const target = scriptedTarget(mode, { start_timeout_ms: 4_000 })
      await withStdio(target, async (gateway) => {
        const probes = () => gateway.log.lines.filter(({ fields }) => fields['stderr'] === 'probed').length
        await using client = await connect(gateway)
        for (const _start of [1, 2]) {
          expect(await say(client, 'echo', { said: 'hi' })).to.equal('hi')
          expect(probes()).to.equal(1)
          await say(client, 'exit').catch(() => undefined)
        }
        await gateway.handle.reload({ targets: { files: target } })
        expect(await say(client, 'echo', { said: 'hi' })).to.equal('hi')
        expect(probes()).to.equal(2)
      })
    })
  }
})
