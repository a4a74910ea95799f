import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { connect1 } from '../../support/sdk-clients.js'
import { startSessionServer } from '../../support/tool-servers.js'

const tools =
  (server: string, ...names: string[]) =>
  (session: McpServer): void => {
    for (const name of names) {
      session.registerTool(name, {}, () => ({ content: [{ type: 'text', text: `${server} ${name}` }] }))
    }
  }

describe('federation.prefix', () => {
  let gateway: TestGateway | undefined

  const one = ofSuite(() => startSessionServer('one', tools('one', 'read', 'write')))
  const two = ofSuite(() => startSessionServer('two', tools('two', 'read', 'drop')))

  afterEach(async () => {
    await gateway?.[Symbol.asyncDispose]()
    gateway = undefined
  })

  async function connect(prefix: 'always' | 'conflict' | 'never', denylist: string[] = []) {
    gateway = await startTestGateway({
      targets: { one: one.url, two: two.url },
      entitlements: { default_plan: 'p', plans: { p: { allowlist: ['*'], denylist } }, tenants: {} },
      federation: { prefix },
    })
    const client = await connect1(`${gateway.url}/mcp`)
    const call = async (name: string): Promise<string> => {
      const response = await client.callTool({ name, arguments: {} }).catch((error: unknown) => error)
      return response instanceof Error ? response.message : JSON.stringify(response)
    }
    const names = async () => (await client.listTools()).tools.map((tool) => tool.name)
    return { client, call, names }
  }

  it('conflict: gives a prefix to names that two servers have', async () => {
    const { client, call, names } = await connect('conflict')
    expect(await names()).to.deep.equal(['one__read', 'write', 'two__read', 'drop'])
    expect(await call('drop')).to.include('two drop')
    expect(await call('two__read')).to.include('two read')
    expect(await call('read')).to.include('"read" is a name at one and two')
    await client.close()
  })

  it('conflict: counts only names that the caller may use', async () => {
    const { client, call, names } = await connect('conflict', ['one/read'])
    expect(await names()).to.deep.equal(['write', 'read', 'drop'])
    expect(await call('read')).to.include('two read')
    await client.close()
  })

  it('conflict: lets a client call a tool that it has not listed', async () => {
    const { client, call } = await connect('conflict')
    expect(await call('write')).to.include('one write')
    await client.close()
  })

  it('never: refuses the list if two servers have one name', async () => {
    const { client, call, names } = await connect('never')
    const error = await names().catch((reason: unknown) => reason)
    expect(String(error)).to.include('"read" is a name at one and two; federation.prefix decides')
    expect(await call('write')).to.include('one write')
    await client.close()
  })

  it('never: lists names as they are', async () => {
    const { client, names } = await connect('never', ['one/read'])
    expect(await names()).to.deep.equal(['write', 'read', 'drop'])
    await client.close()
  })
})
