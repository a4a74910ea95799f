// Three clients that know only a server's URL sign their users in, at authorization servers of three kinds: for clients that
// register themselves, for clients with a metadata document, and for clients that were registered beforehand.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as sdk2 from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import { Browser } from '../../support/browser.js'
import { TestAuthority } from '../../support/certificates.js'
import { type ClientMetadata, serveClientMetadata } from '../../support/client-metadata.js'
import { startEverything } from '../../support/everything.js'
import { startForwarder } from '../../support/forwarder.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { freePort } from '../../support/loopback.js'
import { OAuthClient, type OAuthClientId } from '../../support/oauth-client.js'
import { registered, registeredClient, startOAuthProvider } from '../../support/oauth-provider.js'

const info = { name: 'test', version: '1.0.0' }
const user = 'ada'

/** Connects to `url` as a client with this id, signs `user` in, and calls `echo`. Resolves with the result's content. */
type EchoThrough = (url: URL, id: OAuthClientId, home: string) => Promise<unknown>

const clients: Record<string, EchoThrough> = {
  async 'the MCP SDK 1'(url, id) {
    const oauth = new OAuthClient(id)
    const transport = () => new StreamableHTTPClientTransport(url, { authProvider: oauth })
    const refused = transport()
    const reason = await new Client(info).connect(refused).catch((error: unknown) => error)
    await refused.finishAuth((await signIn(oauth, reason)).get('code') ?? '')
    return echo(new Client(info), transport())
  },
  async 'the MCP SDK 2'(url, id) {
    const oauth = new OAuthClient(id)
    const transport = () => new sdk2.StreamableHTTPClientTransport(url, { authProvider: oauth })
    const refused = transport()
    const reason = await new sdk2.Client(info).connect(refused).catch((error: unknown) => error)
    await refused.finishAuth(await signIn(oauth, reason))
    const client = new sdk2.Client(info)
    await client.connect(transport())
    try {
      return (await client.callTool({ name: 'echo', arguments: { message: 'hi' } })).content
    } finally {
      await client.close()
    }
  },
  async 'mcp-remote'(url, { clientId, metadataUrl }, home) {
    const browser = fileURLToPath(new URL('../../support/browser.js', import.meta.url))
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [
        fileURLToPath(import.meta.resolve('mcp-remote/dist/proxy.js')),
        url.href,
        String(await freePort()),
        ...['--host', '127.0.0.1', '--callback-path', '/callback', '--auth-timeout', '120'],
        ...(clientId === undefined
          ? []
          : ['--static-oauth-client-info', JSON.stringify({ client_id: clientId })]),
        ...(metadataUrl === undefined ? [] : ['--client-metadata-url', metadataUrl]),
      ],
      env: {
        PATH: process.env['PATH'] ?? '',
        MCP_REMOTE_CONFIG_DIR: home,
        BROWSER: `${process.execPath} ${browser}`,
        SIGN_IN_AS: user,
      },
      stderr: 'ignore',
    })
    return echo(new Client(info), transport)
  },
}

async function signIn({ sentTo }: OAuthClient, reason: unknown): Promise<URLSearchParams> {
  if (sentTo === undefined) throw reason
  return (await new Browser(user).signIn(sentTo)).searchParams
}

async function echo(client: Client, transport: Parameters<Client['connect']>[0]): Promise<unknown> {
  await client.connect(transport, { timeout: 120_000 })
  try {
    return (await client.callTool({ name: 'echo', arguments: { message: 'hi' } })).content
  } finally {
    await client.close()
  }
}

const knownBy = {
  register: 'registers itself',
  documents: 'is known by the URL of its metadata',
  registered: 'was registered beforehand',
} as const

for (const [how, title] of Object.entries(knownBy) as [keyof typeof knownBy, string][]) {
  describe(`a client that ${title}`, function () {
    this.timeout(180_000)
    const parts: AsyncDisposable[] = []
    let home: string
    let metadata: ClientMetadata
    let gateway: TestGateway
    let publicUrl: string

    before(async () => {
      home = mkdtempSync(join(tmpdir(), 'svc-oauth-'))
      const authority = new TestAuthority(home)
      metadata = await serveClientMetadata({ client_name: 'test', ...registered }, authority.server())
      const ca = authority.root.cert
      const provider = await startOAuthProvider('tools', { clients: how, ca })
      const everything = await startEverything()
      const forwarder = await startForwarder(() => gateway.url)
      publicUrl = forwarder.url
      gateway = await startTestGateway({
        targets: { everything: everything.url },
        authn: {
          oidc: { ...provider.oidc, scopes: { required: ['tools'] }, publicClientId: registeredClient },
        },
        server: { publicUrl },
      })
      parts.push(metadata, provider, everything, forwarder, gateway)
    })

    after(async () => {
      for (const part of parts.reverse()) await part[Symbol.asyncDispose]()
      rmSync(home, { recursive: true, force: true })
    })

    function id(): OAuthClientId {
      if (how === 'registered') return { clientId: registeredClient }
      return how === 'documents' ? { metadataUrl: metadata.url } : {}
    }

    for (const [name, echoThrough] of Object.entries(clients)) {
      it(`signs its user in and calls a tool: ${name}`, async () => {
        const url = new URL(`${publicUrl}/mcp/everything`)
        const before = gateway.records().length
        expect(await echoThrough(url, id(), mkdtempSync(join(home, 'client-')))).to.deep.equal([
          { type: 'text', text: 'Echo: hi' },
        ])
        const record = gateway
          .records()
          .slice(before)
          .find(({ tool }) => tool.startsWith('echo@'))
        expect(record?.principal).to.include({ user: `${user}@example.com` })
      })
    }

    if (how !== 'registered') return
    it('cannot sign in without an id, and gets an error that names the setting', async () => {
      const url = new URL(`${publicUrl}/mcp/everything`)
      const transport = new StreamableHTTPClientTransport(url, { authProvider: new OAuthClient() })
      const reason = await new Client(info).connect(transport).catch((error: unknown) => error)
      expect(String(reason)).to.contain('does not support dynamic client registration')
      const response = await fetch(url, { method: 'POST' })
      expect(response.status).to.equal(401)
      expect(await response.text()).to.contain(
        'configure the OAuth client id \\"svc-clients\\" in your MCP client',
      )
    })
  })
}
