import type { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { z } from 'zod'
import { startEverything } from '../../support/everything.js'
import { startTestGateway } from '../../support/gateway.js'
import { sdkOf } from '../../support/mcp-sdks.js'
import { ofSuite } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { type SessionServer, startSessionServer, startStatelessServer } from '../../support/tool-servers.js'

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
const entitlements = {
  default_plan: 'p',
  plans: { p: { allowlist: ['notes/read', 'math/*', 'everything/echo', 'pages/*', 'gone/*'] } },
  tenants: {},
}

/** Tools on pages of two. */
async function startPaged(names: readonly string[]): Promise<SessionServer> {
  return startSessionServer('pages', ({ server }: { server: Server }) => {
    server.registerCapabilities({ tools: {} })
    server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
      const start = Number(params?.cursor ?? 0)
      const tools = names
        .slice(start, start + 2)
        .map((name) => ({ name, inputSchema: { type: 'object' as const } }))
      return { tools, ...(start + 2 < names.length ? { nextCursor: String(start + 2) } : {}) }
    })
  })
}

describe('the tools of several servers at /mcp', function () {
  this.timeout(60_000)

  const everything = ofSuite(() => startEverything())
  const notes = ofSuite(() =>
    startSessionServer('notes', (server) => {
      server.registerTool('read', { inputSchema: { id: z.string() } }, ({ id }) => text(`note ${id}`))
      server.registerTool('drop', {}, () => text('dropped'))
    }),
  )
  const math = ofSuite(() =>
    startStatelessServer('math', (server) => {
      server.registerTool('read', { inputSchema: z.object({ n: z.number() }) }, ({ n }) =>
        text(`number ${n}`),
      )
      server.registerTool('x'.repeat(70), {}, () => text('long'))
    }),
  )
  const pages = ofSuite(() => startPaged(['a', 'b', 'c', 'd', 'e']))
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: {
        everything: everything.url,
        notes: notes.url,
        gone: 'http://127.0.0.1:9/mcp',
        math: math.url,
        pages: pages.url,
        hidden: notes.url,
      },
      entitlements,
      federation: { list_ttl_ms: 0 },
    }),
  )

  /** The records that `act` causes. */
  async function recorded(act: () => Promise<unknown>) {
    const before = gateway.records().length
    await act()
    return gateway.records().slice(before)
  }

  for (const [what, connect] of [
    ['SDK 1.x', connect1],
    ['SDK 2.x', connect2],
  ] as const) {
    describe(`with a client of ${what}`, () => {
      let client: Awaited<ReturnType<typeof connect>>

      before(async () => {
        client = await connect(`${gateway.url}/mcp`)
      })

      after(() => client.close())

      it('are one list of all pages, without a server that is down and tools that the caller may not use', async () => {
        const { tools, _meta } = await client.listTools()
        expect(tools.map(({ name }) => name).map((name) => name.replace(/x{10,}_\w+$/, 'x…'))).to.deep.equal([
          'everything__echo',
          'notes__read',
          'math__read',
          'math_x…',
          'pages__a',
          'pages__b',
          'pages__c',
          'pages__d',
          'pages__e',
        ])
        expect(_meta?.['svc/unavailable']).to.deep.equal([
          { server: 'gone', reason: 'The upstream refuses connections.' },
        ])
      })

      it('have the whole name in the title of a shortened one', async () => {
        const { tools } = await client.listTools()
        const long = tools.find(({ name }) => name.startsWith('math_x'))
        expect(long?.title).to.equal(`math: ${'x'.repeat(70)}`)
        expect(long?._meta).to.deep.include({ 'svc/server': 'math', 'svc/name': 'x'.repeat(70) })
        const result = await client.callTool({ name: long?.name ?? '', arguments: {} })
        expect(result.content).to.deep.equal([{ type: 'text', text: 'long' }])
      })

      it('run at their servers, and are recorded under their own names', async () => {
        const records = await recorded(async () => {
          const note = await client.callTool({ name: 'notes__read', arguments: { id: '7' } })
          expect(note.content).to.deep.equal([{ type: 'text', text: 'note 7' }])
          const number = await client.callTool({ name: 'math__read', arguments: { n: 7 } })
          expect(number.content).to.deep.equal([{ type: 'text', text: 'number 7' }])
          const echo = await client.callTool({ name: 'everything__echo', arguments: { message: 'hi' } })
          expect(echo.content).to.deep.equal([{ type: 'text', text: 'Echo: hi' }])
        })
        expect(
          records.filter(({ mcp_method }) => mcp_method === 'tools/call').map(({ tool }) => tool),
        ).to.deep.equal(['read@1.0.0', 'read@2.0.0', 'echo@2.0.0'])
      })

      it('are refused as at their servers, and recorded as denied', async () => {
        let error: unknown
        const records = await recorded(async () => {
          error = await client
            .callTool({ name: 'notes__drop', arguments: {} })
            .catch((reason: unknown) => reason)
        })
        expect(error).to.have.property('code', 403)
        expect(records).to.have.length(1)
        expect(records[0]).to.include({
          server: 'notes@1.0.0',
          tool: 'drop@1.0.0',
          error: 'TOOL_NOT_ALLOWED',
        })
      })

      it('are unknown if no server has the name', async () => {
        for (const name of ['nowhere__read', 'read', 'notes_read']) {
          const error = await client.callTool({ name, arguments: {} }).catch((reason: unknown) => reason)
          expect(error, name).to.have.property('code', -32602)
        }
      })

      it('cause no record for a server that the caller may not use, or that lists leave alone', async () => {
        const records = await recorded(() => client.listTools())
        const servers = new Set(records.map(({ server }) => server.split('@')[0]))
        expect([...servers].sort()).to.deep.equal(['everything', 'math', 'notes', 'pages'])
      })
    })
  }

  for (const revision of ['2025-03-26', '2025-06-18'] as const) {
    it(`run for a client of the revision ${revision}`, async () => {
      const sdk = await sdkOf(revision)
      const client = new sdk.Client({ name: 'old', version: '1.0.0' })
      const transport = new sdk.StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`))
      await client.connect(transport as Parameters<typeof client.connect>[0])
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.include.members(['notes__read', 'math__read'])
      for (const [name, args, expected] of [
        ['notes__read', { id: '7' }, 'note 7'],
        ['math__read', { n: 7 }, 'number 7'],
      ] as const) {
        const result = await client.callTool({ name, arguments: args })
        expect(result['content']).to.deep.equal([{ type: 'text', text: expected }])
      }
      await client.close()
    })
  }

  it('are described as one server', async () => {
    const client = await connect1(`${gateway.url}/mcp`)
    try {
      expect(client.getServerVersion()).to.include({ name: 'svc-gateway' })
      expect(client.getServerCapabilities()).to.have.property('tools')
      expect(client.getInstructions()).to.include('# notes\n\nUse notes.').and.include('# math\n\nUse math.')
    } finally {
      await client.close()
    }
  })
})
