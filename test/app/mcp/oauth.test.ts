// The OAuth flow of the MCP SDK's client against the gateway, from the server's URL alone.
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { Browser } from '../../support/browser.js'
import { startEverything } from '../../support/everything.js'
import { startForwarder } from '../../support/forwarder.js'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { OAuthClient } from '../../support/oauth-client.js'
import { registeredClient, startOAuthProvider } from '../../support/oauth-provider.js'
import { ofSuite } from '../../support/parts.js'

describe('a client of the MCP SDK that signs in', function () {
  this.timeout(60_000)
  const open: Client[] = []

  const everything = ofSuite(() => startEverything())
  const provider = ofSuite(() => startOAuthProvider('tools everything everything.sum'))
  const proxy = ofSuite(() => startForwarder(() => gateway.url))
  const gateway = ofSuite(() => startTestGateway(policy()))

  afterEach(async () => {
    for (const client of open.splice(0)) await client.close()
  })

  function policy(): GatewaySettings {
    const scopes = {
      required: ['tools'],
      servers: { everything: ['everything'] },
      tools: { 'everything/get-sum': ['everything.sum'] },
    }
    return {
      targets: { everything: everything.url, other: everything.url },
      authn: { oidc: { ...provider.oidc, scopes } },
      server: { publicUrl: proxy.url },
    }
  }

  /** Connects as an application does: gets a refusal, sends its user to sign in, and connects. */
  async function signIn(path: string, who: string, clientId?: string) {
    const kept = new OAuthClient(clientId === undefined ? {} : { clientId })
    const url = new URL(`${proxy.url}${path}`)
    const first = new StreamableHTTPClientTransport(url, { authProvider: kept })
    const refused = await connect(first).catch((reason: unknown) => reason)
    expect(refused).to.be.instanceOf(UnauthorizedError)
    await first.finishAuth(await signInAs(who, kept))
    const transport = new StreamableHTTPClientTransport(url, { authProvider: kept })
    return { kept, transport, client: await connect(transport) }
  }

  /** Returns the code for the client. */
  async function signInAs(who: string, { sentTo }: OAuthClient): Promise<string> {
    const redirected = await new Browser(who).signIn(sentTo ?? new URL(proxy.url))
    return redirected.searchParams.get('code') ?? ''
  }

  async function connect(transport: StreamableHTTPClientTransport): Promise<Client> {
    const client = new Client({ name: 'test', version: '1.0.0' })
    open.push(client)
    await client.connect(transport)
    return client
  }

  it('gets a token for the server with its scopes after a 401', async () => {
    const { kept, client } = await signIn('/mcp/everything', 'ada')
    expect(kept.claims).to.include({ aud: `${proxy.url}/mcp/everything`, scope: 'tools everything' })
    const { content } = await client.callTool({ name: 'echo', arguments: { message: 'hi' } })
    expect(content).to.deep.equal([{ type: 'text', text: 'Echo: hi' }])
    const record = gateway.records().find(({ tool }) => tool.startsWith('echo@'))
    expect(record?.principal).to.include({ user: 'ada@example.com' })
  })

  it('gets a wider token when a tool asks for a scope that it lacks', async () => {
    const { kept, transport, client } = await signIn('/mcp/everything', 'ada', registeredClient)
    const sum = () => client.callTool({ name: 'get-sum', arguments: { a: 2, b: 3 } })
    const refused = await sum().catch((reason: unknown) => reason)
    expect(refused).to.be.instanceOf(UnauthorizedError)
    const asked = kept.sentTo?.searchParams.get('scope')?.split(' ')
    expect(asked).to.have.members(['tools', 'everything', 'everything.sum'])
    await transport.finishAuth(await signInAs('ada', kept))
    const { content } = await sum()
    expect(content).to.deep.equal([{ type: 'text', text: 'The sum of 2 and 3 is 5.' }])
  })

  it('gets a token for all servers at /mcp, and a wider one when a tool there asks for it', async () => {
    const { kept, transport, client } = await signIn('/mcp', 'ada', registeredClient)
    expect(kept.claims).to.include({ aud: `${proxy.url}/mcp`, scope: 'tools everything' })
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).to.include.members(['everything__get-sum', 'other__echo'])
    const sum = () => client.callTool({ name: 'everything__get-sum', arguments: { a: 2, b: 3 } })
    expect(await sum().catch((reason: unknown) => reason)).to.be.instanceOf(UnauthorizedError)
    await transport.finishAuth(await signInAs('ada', kept))
    expect((await sum()).content).to.deep.equal([{ type: 'text', text: 'The sum of 2 and 3 is 5.' }])
    expect(kept.claims).to.include({ aud: `${proxy.url}/mcp` })
  })

  it('cannot take its token to another server', async () => {
    const { kept } = await signIn('/mcp/everything', 'ada')
    const response = await postMcp(
      `${proxy.url}/mcp/other`,
      { id: 1, method: 'ping' },
      { authorization: `Bearer ${kept.tokens()?.access_token}` },
    )
    expect(response.status).to.equal(401)
    expect(response.headers.get('www-authenticate')).to.equal(
      `Bearer realm="svc", error="invalid_token", scope="tools", resource_metadata="${proxy.url}/.well-known/oauth-protected-resource/mcp/other", error_description="The token is for another server of this gateway."`,
    )
  })
})
