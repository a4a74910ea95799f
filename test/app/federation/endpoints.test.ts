import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'

const publicUrl = 'https://gw.example'
const wellKnown = '/.well-known/oauth-protected-resource'

describe('the endpoints of several servers', () => {
  let servers: Record<string, SessionServer>
  let issuer: TestIssuer
  let gateway: TestGateway | undefined

  before(async () => {
    issuer = await TestIssuer.start()
    servers = {}
    for (const name of ['notes', 'mail', 'files']) {
      servers[name] = await startSessionServer(name, (server) => {
        server.registerTool('read', {}, () => ({ content: [{ type: 'text', text: name }] }))
      })
    }
  })

  afterEach(async () => {
    await gateway?.[Symbol.asyncDispose]()
    gateway = undefined
  })

  after(async () => {
    for (const server of Object.values(servers)) await server[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  })

  async function start(options: GatewaySettings = {}): Promise<void> {
    const targets = Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url]))
    gateway = await startTestGateway({
      targets,
      federation: { groups: { office: ['mail', 'notes'] } },
      ...options,
    })
  }

  /** The tools that a client with one URL sees. */
  async function toolsAt(
    path: string,
    token?: string,
    connect: typeof connect1 | typeof connect2 = connect1,
  ) {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const client = await connect(`${gateway?.url}${path}`, { headers })
    try {
      return (await client.listTools()).tools.map(({ name }) => name)
    } finally {
      await client.close()
    }
  }

  const withTokens = (): GatewaySettings => ({ server: { publicUrl }, authn: { oidc: issuer.oidc } })

  it('serve all targets at /mcp, with or without a slash at the end, and those of a group at its name', async () => {
    await start()
    expect(await toolsAt('/mcp')).to.deep.equal(['notes__read', 'mail__read', 'files__read'])
    expect(await toolsAt('/mcp/')).to.deep.equal(['notes__read', 'mail__read', 'files__read'])
    expect(await toolsAt('/mcp/office')).to.deep.equal(['mail__read', 'notes__read'])
    expect(await toolsAt('/mcp/notes')).to.deep.equal(['read'])
  })

  it('serve at /mcp those that the policy names', async () => {
    await start({ federation: { servers: ['files'], groups: { office: ['mail', 'notes'] } } })
    expect(await toolsAt('/mcp')).to.deep.equal(['files__read'])
    expect(await toolsAt('/mcp/office')).to.deep.equal(['mail__read', 'notes__read'])
  })

  it('do not call a server outside of the group', async () => {
    await start()
    await using client = await connect1(`${gateway?.url}/mcp/office`)
    const error = await client
      .callTool({ name: 'files__read', arguments: {} })
      .catch((reason: unknown) => reason)
    expect(error).to.have.property('code', -32602)
  })

  it('have their own sessions', async () => {
    await start()
    await using client = await connect1(`${gateway?.url}/mcp/office`)
    const session = { 'mcp-session-id': String(Reflect.get(client.transport ?? {}, 'sessionId')) }
    const response = await fetch(`${gateway?.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...session },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(response.status).to.equal(404)
  })

  for (const [what, connect] of [
    ['SDK 1.x', connect1],
    ['SDK 2.x', connect2],
  ] as const) {
    it(`show the servers that the audience of a token allows, to a client of ${what}`, async () => {
      await start(withTokens())
      const all = ['notes__read', 'mail__read', 'files__read']
      for (const [path, aud, expected] of [
        ['/mcp', publicUrl, all],
        ['/mcp', `${publicUrl}/mcp`, all],
        ['/mcp', `${publicUrl}/mcp/notes`, ['notes__read']],
        ['/mcp', `${publicUrl}/mcp/office`, ['notes__read', 'mail__read']],
        ['/mcp/office', `${publicUrl}/mcp`, ['mail__read', 'notes__read']],
        ['/mcp/office', `${publicUrl}/mcp/notes`, ['notes__read']],
        ['/mcp/office', `${publicUrl}/mcp/files`, []],
      ] as const) {
        const token = await issuer.sign({ aud })
        expect(await toolsAt(path, token, connect), `${path} ${aud}`).to.deep.equal(expected)
      }
    })
  }

  it('do not call a server that the audience of a token does not allow', async () => {
    await start(withTokens())
    const headers = { authorization: `Bearer ${await issuer.sign({ aud: `${publicUrl}/mcp/notes` })}` }
    await using client = await connect1(`${gateway?.url}/mcp`, { headers })
    const error = await client
      .callTool({ name: 'mail__read', arguments: {} })
      .catch((reason: unknown) => reason)
    expect(error).to.have.property('code', -32602)
  })

  it('name themselves in the challenge of a call that lacks a scope', async () => {
    const scopes = { tools: { 'mail/read': ['mail.read'] } }
    await start({ server: { publicUrl }, authn: { oidc: { ...issuer.oidc, scopes } } })
    const authorization = `Bearer ${await issuer.sign({ aud: `${publicUrl}/mcp` })}`
    const post = (message: object, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${gateway?.url}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization, ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
      })
    const client = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'raw', version: '1' },
    }
    const began = await post({ method: 'initialize', params: client })
    const session = { 'mcp-session-id': began.headers.get('mcp-session-id') ?? '' }
    const refused = await post(
      { method: 'tools/call', params: { name: 'mail__read', arguments: {} } },
      session,
    )
    expect(refused.status).to.equal(403)
    expect(refused.headers.get('www-authenticate'))
      .to.include('scope="mail.read"')
      .and.include(`resource_metadata="${publicUrl}${wellKnown}/mcp"`)
  })

  it('say why there is no list if no server has one, except for servers that the policy hides', async () => {
    const gone = 'http://127.0.0.1:9/mcp'
    await start({
      targets: { gone, notes: servers['notes']?.url ?? '' },
      entitlements: { default_plan: 'p', plans: { p: { allowlist: ['gone/*'] } }, tenants: {} },
      federation: {},
    })
    await using client = await connect1(`${gateway?.url}/mcp`)
    const error = await client.listTools().catch((reason: unknown) => reason)
    expect(error).to.have.property('code', 502)
    expect(String(error)).to.include('No server has a list now. gone: The upstream refuses connections.')
  })

  it('serve the other servers while one hangs', async () => {
    const { createServer } = await import('node:http')
    const hanging = createServer(() => undefined)
    await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve))
    const address = hanging.address()
    const port = typeof address === 'object' ? address?.port : 0
    try {
      await start({
        targets: { hangs: `http://127.0.0.1:${port}/mcp`, notes: servers['notes']?.url ?? '' },
        federation: { list_timeout_ms: 1_000 },
      })
      await using client = await connect1(`${gateway?.url}/mcp`)
      const { tools, _meta } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.deep.equal(['notes__read'])
      expect(_meta?.['svc/unavailable']).to.deep.equal([
        { server: 'hangs', reason: 'The server did not respond in time.' },
      ])
    } finally {
      hanging.closeAllConnections()
      await new Promise((resolve) => hanging.close(resolve))
    }
  })
})
