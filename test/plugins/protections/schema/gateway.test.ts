// Arguments against the schemas that callers were served, over the routes to one server and to several.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { ofSuite } from '../../../support/parts.js'
import { connect1, connect2 } from '../../../support/sdk-clients.js'
import { startSessionServer, startStatelessServer } from '../../../support/tool-servers.js'

const done = { content: [{ type: 'text' as const, text: 'done' }] }
const input = { branch: z.string(), count: z.number().optional() }
/** The server takes anything; its definition is what the client sees. */
const secret = 'the value of the argument'

describe('the arguments of a tool', function () {
  this.timeout(60_000)

  const session = ofSuite(() =>
    startSessionServer('git', (server) => {
      server.registerTool('merge', { inputSchema: input }, () => done)
    }),
  )
  const stateless = ofSuite(() =>
    startStatelessServer('git', (server) => {
      server.registerTool('merge', { inputSchema: z.object(input) }, () => done)
    }),
  )

  const settings = (protections: object): GatewaySettings => ({
    targets: { git: session.url, new: stateless.url },
    protections: { definitions: { trust: 'first_use' }, ...protections },
  })

  async function call(gateway: TestGateway, path: string, tool: string, args: object): Promise<string> {
    const connect = path === '/mcp/new' ? connect2 : connect1
    const client = await connect(`${gateway.url}${path}`)
    try {
      await client.listTools()
      const result = await client.callTool({ name: tool, arguments: args as Record<string, unknown> })
      return JSON.stringify(result.content)
    } catch (error) {
      return (error as Error).message
    } finally {
      await client.close()
    }
  }

  const routes = [
    ['/mcp/git', 'merge'],
    ['/mcp/new', 'merge'],
    ['/mcp', 'git__merge'],
    ['/mcp', 'new__merge'],
  ] as const

  for (const [path, tool] of routes) {
    it(`that do not fit its schema are refused at ${path} for ${tool}, naming their place and not their value`, async () => {
      await using gateway = await startTestGateway(settings({ schema: 'enforce' }))
      expect(await call(gateway, path, tool, { branch: 'main' })).to.contain('done')
      const refused = await call(gateway, path, tool, { branch: 'main', count: secret })
      expect(refused).to.contain('arguments_invalid').and.to.contain('arguments/count: type')
      expect(refused).not.to.contain(secret)
      const record = gateway.records().find((one) => JSON.stringify(one).includes('arguments_invalid'))
      expect(record?.policy.decision).to.equal('deny')
      expect(JSON.stringify(record)).not.to.contain(secret)
    })
  }

  it('that do not fit are recorded and passed on if the policy only reports, for all or for this tool', async () => {
    for (const [schema, enforcement] of [
      ['report', {}],
      [{ default: 'enforce', tools: { 'mcp://git/merge@*': 'report' } }, {}],
      ['enforce', { enforcement: { mode: 'observe' } }],
    ] as const) {
      await using gateway = await startTestGateway({ ...settings({ schema }), ...enforcement })
      const result = await call(gateway, '/mcp/git', 'merge', { branch: 'main', count: 'x' })
      // The server itself refuses them.
      expect(result).to.contain('Invalid arguments').and.not.to.contain('arguments_invalid')
      expect(gateway.records().some((one) => JSON.stringify(one).includes('"arguments_invalid"'))).to.equal(
        true,
      )
    }
  })

  it('of a tool that the server does not list are refused, as they cannot be checked', async () => {
    await using gateway = await startTestGateway(settings({ schema: 'enforce' }))
    await using client = await connect1(`${gateway.url}/mcp/git`)
    const called = await client
      .callTool({ name: 'unlisted', arguments: { branch: 'x' } })
      .catch(({ message }) => message)
    expect(called).to.contain('arguments_unchecked')
  })

  it('need the definitions to be known: a policy without them is refused', async () => {
    const failed = await startTestGateway(
      settings({ definitions: { effect: 'off' }, schema: 'enforce' }),
    ).catch(({ message }: Error) => message)
    expect(failed).to.contain('protections.schema').and.to.contain('needs definitions')
  })
})
