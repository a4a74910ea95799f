// Starts every entry of the snippets in docs/clients.md, with the paths and URLs of the test.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { startGatewayServer } from 'svc-sdk'
import { Browser } from '../support/browser.js'
import { startForwarder } from '../support/forwarder.js'
import { freePort } from '../support/loopback.js'
import { OAuthClient } from '../support/oauth-client.js'
import { startOAuthProvider } from '../support/oauth-provider.js'
import { writeOpener } from '../support/opener.js'
import { ofSuite } from '../support/parts.js'
import { TemporaryDir } from '../support/temporary-dir.js'

const fromRoot = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))
const page = readFileSync(fromRoot('docs/clients.md'), 'utf8')
const [gatewayYaml = '', policyYaml = ''] = [...page.matchAll(/^```yaml\n(tenant:.*?)^```$/gms)].map(
  ([, text]) => text,
)

interface Entry {
  readonly command?: string
  readonly args?: string[]
  readonly env?: Record<string, string>
  readonly url?: string
  /** Each client has the id of its OAuth client in another member. */
  readonly oauth?: { readonly clientId?: string; readonly client_id?: string }
  readonly auth?: { readonly CLIENT_ID?: string }
}

/** The servers in the snippet of a client. */
function entriesOf(client: string): [string, Entry][] {
  const [, text = '{}'] = new RegExp(`^## ${client}\n.*?^\`\`\`json\n(.*?)^\`\`\`$`, 'ms').exec(page) ?? []
  const snippet: Record<string, Record<string, Entry>> = JSON.parse(text)
  const [key = ''] = Object.keys(snippet)
  return Object.entries(snippet[key] ?? {})
}

const clients = ['Claude Desktop', 'Claude Code', 'Cursor', 'VS Code', 'Zed', 'Windsurf']

describe('docs/clients.md', function () {
  this.timeout(240_000)
  let gateway: ReturnType<typeof startGatewayServer>
  let gatewayUrl: string
  /** Replaces the fixed port of the page. */
  let callbackPort: number
  /** The end of what the command of the entry has printed there. */
  let standardError = ''

  const home = ofSuite(() => new TemporaryDir())
  const provider = ofSuite(() => startOAuthProvider('tools'))
  const forwarder = ofSuite(() => startForwarder(() => gatewayUrl))
  before(async () => {
    mkdirSync(join(home.path, 'notes'))
    writeFileSync(join(home.path, 'notes', 'note.txt'), 'remember the milk')
    // Here npx finds the packages in the directory of the policy.
    symlinkSync(fromRoot('node_modules'), join(home.path, 'node_modules'))
    writeFileSync(join(home.path, 'package.json'), '{}')
    generateKeyFile(join(home.path, 'audit.key'))
    writeFileSync(join(home.path, 'policy.yaml'), here(policyYaml))
    writeFileSync(join(home.path, 'gateway.yaml'), here(gatewayYaml))
    writeOpener(join(home.path, 'bin'))
    callbackPort = await freePort()
    gateway = startGatewayServer({
      policyFile: join(home.path, 'gateway.yaml'),
      policyYaml: here(gatewayYaml),
      port: 0,
      sec0Dir: join(home.path, 'gateway'),
    })
    gatewayUrl = (await gateway.ready()).url
  })

  after(() => gateway.close())

  /** The text of the page with the paths and URLs of the test. */
  function here(text: string): string {
    return text
      .replaceAll('https://gateway.example.com', forwarder.url)
      .replace('https://id.example.com/jwks', provider.oidc.jwks_uri)
      .replace('https://id.example.com/', provider.issuer)
      .replaceAll('/home/ada', home.path)
      .replaceAll('/srv/files', join(home.path, 'notes'))
  }

  async function connect({ command = '', args = [], env = {}, url, oauth, auth }: Entry): Promise<Client> {
    const client = new Client({ name: 'test', version: '1.0.0' })
    const options = { timeout: 120_000 }
    if (url === undefined) {
      const variables = {
        PATH: `${join(home.path, 'bin')}:${process.env['PATH']}`,
        HOME: home.path,
        SIGN_IN_AS: 'ada',
        BROWSER: join(home.path, 'bin', 'xdg-open'),
      }
      const transport = new StdioClientTransport({
        command: here(command),
        args: args.map((arg) => here(arg).replace('8976', String(callbackPort))),
        env: { ...variables, ...env },
        cwd: home.path,
        stderr: 'pipe',
      })
      standardError = ''
      transport.stderr?.on('data', (piece: Buffer) => {
        standardError = `${standardError}${piece}`.slice(-4000)
      })
      await client.connect(transport, options)
      return client
    }
    const clientId = oauth?.clientId ?? oauth?.client_id ?? auth?.CLIENT_ID
    const user = new OAuthClient(clientId === undefined ? {} : { clientId })
    const transport = () => new StreamableHTTPClientTransport(new URL(here(url)), { authProvider: user })
    const refused = transport()
    const reason = await new Client({ name: 'test', version: '1.0.0' })
      .connect(refused)
      .catch((e: unknown) => e)
    if (user.sentTo === undefined) throw reason
    const redirected = await new Browser('ada').signIn(user.sentTo)
    await refused.finishAuth(redirected.searchParams.get('code') ?? '')
    // Its types are not made for `exactOptionalPropertyTypes`.
    await client.connect(transport() as Parameters<Client['connect']>[0], options)
    return client
  }

  async function readNote(entry: Entry): Promise<void> {
    const client = await connect(entry)
    try {
      // With several servers, a name begins with that of its server.
      const names = (await client.listTools()).tools.map((tool) => tool.name)
      expect(names.map((tool) => tool.split('__').at(-1))).to.have.members([
        'read_text_file',
        'list_directory',
      ])
      const { content } = await client.callTool({
        name: names.find((tool) => tool.endsWith('read_text_file')) ?? '',
        arguments: { path: join(home.path, 'notes', 'note.txt') },
      })
      expect(content).to.deep.equal([{ type: 'text', text: 'remember the milk' }])
    } finally {
      await client.close()
    }
  }

  const started = new Set<string>()
  for (const name of clients) {
    it(`has entries for ${name}`, () => {
      expect(entriesOf(name).map(([server]) => server)).to.include.members(['files', 'notes'])
    })
    for (const [server, { type: _type, ...entry }] of entriesOf(name) as [
      string,
      Entry & { type?: string },
    ][]) {
      if (started.has(JSON.stringify({ env: {}, ...entry }))) continue
      started.add(JSON.stringify({ env: {}, ...entry }))
      it(`has an entry "${server}" for ${name} that works`, async () => {
        await readNote(entry).catch((cause: Error) => {
          throw new Error(`${cause.message}; its standard error: ${standardError}`, { cause })
        })
      })
    }
  }
})
