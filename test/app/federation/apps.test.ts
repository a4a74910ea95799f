// MCP Apps (SEP-1865): tools of several servers with user interfaces, which are resources that their servers need not list.
import { ListResourcesRequestSchema, ReadResourceRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { startSessionServer, startStatelessServer } from '../../support/tool-servers.js'

const UI = 'io.modelcontextprotocol/ui'
const mimeType = 'text/html;profile=mcp-app'
const uri = 'ui://view.html'
const extensions = { [UI]: { mimeTypes: [mimeType] } }
const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] })
const shown = {
  _meta: { ui: { resourceUri: uri }, 'ui/resourceUri': uri, 'openai/outputTemplate': uri, other: 1 },
}
const forApp = { _meta: { ui: { resourceUri: uri, visibility: ['app'] } } }
const clients = { 'SDK 1.x': connect1, 'SDK 2.x': connect2 } as const

interface Tool {
  readonly name: string
  readonly _meta?: { readonly ui?: { readonly resourceUri: string }; readonly 'ui/resourceUri'?: string }
}

describe('apps of several servers at /mcp', function () {
  this.timeout(60_000)

  const charts = ofSuite(() =>
    startSessionServer(
      'charts',
      (server) => {
        server.registerTool('show', shown, () => text('charts'))
        server.registerTool('refresh', forApp, () => text('charts refreshed'))
        server.registerTool('only', forApp, () => text('charts only'))
        server.registerTool('caps', {}, () => text(server.server.getClientCapabilities()?.extensions ?? null))
        const { server: low } = server
        low.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [] }))
        low.setRequestHandler(ReadResourceRequestSchema, ({ params }) => ({
          contents: [{ uri: params.uri, mimeType, text: `charts ${params.uri}` }],
        }))
      },
      { resources: {} },
    ),
  )
  const maps = ofSuite(() =>
    startStatelessServer('maps', (server) => {
      server.registerTool('show', shown, () => text('maps'))
      server.registerTool('refresh', forApp, () => text('maps refreshed'))
      server.registerTool('caps', {}, (ctx) => {
        const envelope = new Map<string, { extensions?: object }>(Object.entries(ctx.mcpReq.envelope ?? {}))
        return text(envelope.get('io.modelcontextprotocol/clientCapabilities')?.extensions ?? null)
      })
      server.registerResource('view', uri, { mimeType, _meta: { ui: { prefersBorder: true } } }, (read) => ({
        contents: [{ uri: read.href, mimeType, text: `maps ${read.href}` }],
      }))
    }),
  )

  const start = (more: Partial<GatewaySettings> = {}) =>
    startTestGateway({ targets: { charts: charts.url, maps: maps.url }, ...more })

  const allowing = (...allowlist: string[]) => ({
    entitlements: { default_plan: 'p', plans: { p: { allowlist } }, tenants: {} },
  })

  const failure = (act: Promise<unknown>): Promise<string> =>
    act.then(
      () => expect.fail('it was served'),
      ({ message }: Error) => message,
    )

  for (const [sdk, connect] of Object.entries(clients)) {
    const open = async (url: string, capabilities: object = { extensions }) => {
      const client = await connect(url, { capabilities })
      const { tools } = (await client.listTools()) as { tools: Tool[] }
      const call = async (name: string): Promise<unknown> => {
        const { content } = (await client.callTool({ name, arguments: {} })) as ReturnType<typeof text>
        return JSON.parse(content[0]?.text ?? 'null')
      }
      const read = async (of: string): Promise<{ uri: string; text: string }[]> =>
        (await client.readResource({ uri: of })).contents as { uri: string; text: string }[]
      return { client, tools, call, read }
    }

    it(`have a resource of their own each, listed by its server or not, under one URI everywhere: ${sdk}`, async () => {
      await using gateway = await start()
      const { client, tools, read } = await open(`${gateway.url}/mcp`)
      for (const server of ['charts', 'maps']) {
        const meta = tools.find(({ name }) => name === `${server}__show`)?._meta
        const own = meta?.ui?.resourceUri ?? ''
        expect(own).to.match(/^ui:\/\//)
        expect(meta).to.deep.include({ 'ui/resourceUri': own, 'openai/outputTemplate': own, other: 1 })
        const contents = await read(own)
        expect(contents.map((content) => [content.uri, content.text])).to.deep.equal([
          [own, `${server} ${uri}`],
        ])
        if (server !== 'maps') continue
        const { resources } = await client.listResources()
        expect(resources.map((resource) => resource.uri)).to.deep.equal([own])
        expect(resources[0]).to.have.nested.property('_meta.ui.prefersBorder', true)
      }
      await client.close()
    })

    it(`learn in each revision that the client shows them: ${sdk}`, async () => {
      await using gateway = await start()
      const { client, call } = await open(`${gateway.url}/mcp`)
      for (const server of ['charts', 'maps']) expect(await call(`${server}__caps`)).to.deep.equal(extensions)
      await client.close()
    })

    it(`call tools of their own servers by the names there, unless several servers have them: ${sdk}`, async () => {
      await using gateway = await start()
      const { client, tools, call } = await open(`${gateway.url}/mcp`)
      expect(tools.map(({ name }) => name)).to.include.members([
        'charts__only',
        'charts__refresh',
        'maps__refresh',
      ])
      expect(await call('only')).to.equal('charts only')
      expect(await failure(call('refresh'))).to.contain('here it is charts__refresh or maps__refresh')
      for (const server of ['charts', 'maps'])
        expect(await call(`${server}__refresh`)).to.equal(`${server} refreshed`)
      await client.close()
    })

    it(`have no names of other servers while one of theirs is unavailable: ${sdk}`, async () => {
      await using gateway = await start({
        targets: { gone: 'http://127.0.0.1:9/mcp', charts: charts.url },
        federation: { list_timeout_ms: 1_000 },
      })
      const { client, call } = await open(`${gateway.url}/mcp`)
      expect(await failure(call('only'))).to.contain('here it is charts__only')
      await client.close()
    })

    it(`have no tools of theirs in the list of a client that shows none: ${sdk}`, async () => {
      await using gateway = await start()
      const { client, tools, call } = await open(`${gateway.url}/mcp`, {})
      expect(tools.map(({ name }) => name)).to.deep.equal([
        'charts__show',
        'charts__caps',
        'maps__show',
        'maps__caps',
      ])
      expect(await failure(call('only'))).to.contain('here it is charts__only')
      await client.close()
    })

    it(`may be read by who may call their tools, and nothing else may: ${sdk}`, async () => {
      await using gateway = await start(allowing('charts/show', 'maps/caps'))
      const { client, tools, read } = await open(`${gateway.url}/mcp`)
      const own = tools.find(({ name }) => name === 'charts__show')?._meta?.ui?.resourceUri ?? ''
      expect((await read(own))[0]?.text).to.equal(`charts ${uri}`)
      expect(await failure(read(own.replace('view', 'other')))).to.contain('no allowlist')
      expect(await failure(read(own.replace('charts', 'maps')))).to.contain('no allowlist')
      await client.close()
    })
  }

  it('are refused at the endpoint of their server too if the policy denies their resource', async () => {
    const cases: [string[], boolean][] = [
      [[], true],
      [['charts/resources/ui://*'], false],
    ]
    for (const [denylist, isRead] of cases) {
      await using gateway = await start({
        entitlements: {
          default_plan: 'p',
          plans: { p: { allowlist: ['charts/show'], denylist } },
          tenants: {},
        },
      })
      await using client = await connect1(`${gateway.url}/mcp/charts`)
      await client.listTools()
      const reading = client.readResource({ uri })
      if (isRead) expect((await reading).contents[0]).to.have.property('text', `charts ${uri}`)
      else expect(await failure(reading)).to.contain('denylist')
    }
  })
})
