// Methods that MCP does not have, of clients and of servers of both kinds of revisions, and interfaces of tools.
import type { ServerContext } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { postMcp } from '../../../support/mcp-post.js'
import { ofSuite } from '../../../support/parts.js'
import { connect1, connect2 } from '../../../support/sdk-clients.js'
import { startSessionServer, startStatelessServer } from '../../../support/tool-servers.js'

const done = { content: [{ type: 'text' as const, text: 'done' }] }
const vendor = 'notifications/vendor/news'
const page = (csp: object, mimeType = 'text/html;profile=mcp-app', text = '<p>') => ({
  uri: 'ui://page',
  mimeType,
  text,
  _meta: { ui: { csp } },
})
const pages: Readonly<Record<string, ReturnType<typeof page>>> = {
  plain: page({}),
  good: page({ connectDomains: ['https://api.good.example'], resourceDomains: ['https://*.good.example'] }),
  evil: page({ connectDomains: ['https://api.good.example', 'https://evil.example'] }),
  wide: page({ frameDomains: ['https://*.example'] }),
  all: page({ resourceDomains: ['*'] }),
  data: page({ resourceDomains: ['data:'] }),
  text: page({ connectDomains: 'https://evil.example' } as never),
  elsewhere: page({}, 'text/uri-list', 'https://evil.example/app'),
  here: page({}, 'text/uri-list', 'https://app.good.example/app'),
}

describe('methods and apps', function () {
  this.timeout(60_000)

  const session = ofSuite(async () =>
    startSessionServer('old', (server) => {
      server.registerTool('tell', {}, async ({ sendNotification }) => {
        await sendNotification({ method: vendor, params: {} } as never)
        return done
      })
      server.registerTool('draw', { _meta: { ui: { visibility: ['app'] } } }, () => done)
      server.registerTool('show', { inputSchema: { page: z.string() } }, ({ page: name }) => ({
        content: [{ type: 'resource', resource: pages[name] ?? page({}) }],
      }))
      for (const [name, content] of Object.entries(pages)) {
        const uri = `ui://${name}`
        server.registerResource(name, uri, {}, () => ({ contents: [{ ...content, uri }] }))
      }
    }),
  )
  const stateless = ofSuite(async () =>
    startStatelessServer('new', (server) => {
      server.registerTool('tell', {}, async ({ mcpReq }: ServerContext) => {
        await mcpReq.notify({ method: vendor, params: {} } as never)
        return done
      })
    }),
  )

  const settings = (methods: object, more: object = {}): GatewaySettings => ({
    targets: { old: session.url, new: stateless.url },
    protections: { methods, ...more },
  })

  async function post(gateway: TestGateway, server: string, method: string, isRequest: boolean) {
    const isNew = server === 'new'
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const revision = isNew ? '2026-07-28' : '2025-11-25'
    const before = gateway.records().length
    const response = await postMcp(
      `${gateway.url}/mcp/${server}`,
      { ...(isRequest ? { id: 1 } : {}), method, params: isNew ? { _meta: meta } : {} },
      { 'mcp-protocol-version': revision, ...(isNew ? { 'mcp-method': method } : {}) },
    )
    const text = await response.text()
    return `${text} ${JSON.stringify(gateway.records().slice(before))}`
  }

  for (const server of ['old', 'new']) {
    for (const isRequest of [true, false]) {
      const what = isRequest ? 'request' : 'notification'
      it(`a client's ${what} to server ${server} is refused if neither MCP nor the policy has its method`, async () => {
        await using gateway = await startTestGateway(settings({ allow: ['vendor/known'] }))
        const before = [session, stateless].flatMap(({ methods }) => methods).length
        const refused = await post(gateway, server, 'vendor/wipe', isRequest)
        expect(refused).to.contain('"method_unknown"').and.to.contain('"decision":"deny"')
        expect([session, stateless].flatMap(({ methods }) => methods)).to.have.length(before)
        expect(await post(gateway, server, 'vendor/known', isRequest)).not.to.contain('method_unknown')
        await using reporting = await startTestGateway(settings({ effect: 'report' }))
        const reported = await post(reporting, server, 'vendor/wipe', isRequest)
        expect(reported).to.contain('"method_unknown"').and.to.contain('"effect":"reported"')
      })
    }
  }

  for (const [server, path, tool] of [
    ['old', '/mcp/old', 'tell'],
    ['new', '/mcp/new', 'tell'],
    ['old', '/mcp', 'old__tell'],
    ['new', '/mcp', 'new__tell'],
  ] as const) {
    it(`a notification of server ${server} reaches no client at ${path} if its method is not known`, async () => {
      for (const [methods, isPassed] of [
        [{}, false],
        [{ allow: [vendor] }, true],
        [{ effect: 'report' }, true],
      ] as const) {
        await using gateway = await startTestGateway(settings(methods))
        const told: string[] = []
        const listen = (client: { fallbackNotificationHandler?: unknown }): void => {
          client.fallbackNotificationHandler = async ({ method }: { method: string }) =>
            void told.push(method)
        }
        const client =
          path === '/mcp/new'
            ? await connect2(`${gateway.url}${path}`)
            : await connect1(`${gateway.url}${path}`, { prepare: listen })
        if (path === '/mcp/new') listen(client as never)
        await client.callTool({ name: tool, arguments: {} })
        await client.close()
        expect(told, JSON.stringify(methods)).to.deep.equal(isPassed ? [vendor] : [])
        const records = gateway.records().filter((record) => record.tool === 'methods/unknown@1')
        expect(records, JSON.stringify(methods)).to.have.length('allow' in methods ? 0 : 1)
      }
    })
  }

  async function results(gateway: TestGateway): Promise<Record<string, string>> {
    const client = await connect1(`${gateway.url}/mcp/old`)
    await client.listTools()
    const found: Record<string, string> = {}
    const shown = async (name: string, asking: Promise<unknown>): Promise<void> => {
      found[name] = await asking.then(
        () => 'passed',
        ({ message }: Error) => /app_\w+/.exec(message)?.[0] ?? message,
      )
    }
    for (const name of Object.keys(pages)) {
      await shown(name, client.readResource({ uri: `ui://${name}` }))
      await shown(`shown ${name}`, client.callTool({ name: 'show', arguments: { page: name } }))
    }
    await shown('draw', client.callTool({ name: 'draw', arguments: {} }))
    await shown('tell', client.callTool({ name: 'tell', arguments: {} }))
    await client.close()
    return found
  }

  const named = (names: readonly string[], result: string): Record<string, string> =>
    Object.fromEntries(names.flatMap((name) => [name, `shown ${name}`]).map((name) => [name, result]))

  it('interfaces of tools are passed, refused, or limited to the origins of the policy', async () => {
    const definitions = { trust: 'first_use' }
    const names = Object.keys(pages)
    await using passing = await startTestGateway(settings({ allow: [vendor] }, { definitions }))
    expect(await results(passing)).to.deep.equal({
      ...named(names, 'passed'),
      draw: 'passed',
      tell: 'passed',
    })
    await using denying = await startTestGateway(settings({ apps: 'deny' }, { definitions }))
    expect(await results(denying)).to.deep.equal({
      ...named(names, 'app_denied'),
      draw: 'app_denied',
      tell: 'passed',
    })
    await using limited = await startTestGateway(
      settings({ apps: { origins: ['*.good.example'] } }, { definitions }),
    )
    expect(await results(limited)).to.deep.equal({
      ...named(['plain', 'good', 'data', 'here'], 'passed'),
      ...named(['evil', 'wide', 'all', 'text', 'elsewhere'], 'app_origin_denied'),
      draw: 'passed',
      tell: 'passed',
    })
  })
})
