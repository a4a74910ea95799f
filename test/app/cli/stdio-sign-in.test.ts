// `svc stdio` signs its user in: a program on PATH replaces the browser, and the issuer is real.
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import {
  type OAuthProviderOptions,
  registeredClient,
  startOAuthProvider,
} from '../../support/oauth-provider.js'
import { writeOpener } from '../../support/opener.js'
import { StdioGateway } from '../../support/stdio-gateway.js'
import { say } from '../../support/stdio-target.js'

const support = (file: string) => fileURLToPath(new URL(`../../support/${file}`, import.meta.url))
const files = ['--name', 'files', '--', process.execPath, support('scripted-server.js')]

class SignInRig implements AsyncDisposable {
  readonly gateway: StdioGateway
  #provider: AsyncDisposable
  #bin: string

  private constructor(gateway: StdioGateway, provider: AsyncDisposable) {
    this.gateway = gateway
    this.#provider = provider
    this.#bin = join(gateway.home, 'bin')
    writeOpener(this.#bin)
  }

  static async start(options: OAuthProviderOptions = {}, clientId?: string): Promise<SignInRig> {
    const provider = await startOAuthProvider('tools files', options)
    const oidc = {
      ...provider.oidc,
      audience: 'https://gateway.example.com/mcp',
      scopes: { required: ['tools'], tools: { 'files/echo': ['files'] } },
      ...(clientId === undefined ? {} : { publicClientId: clientId }),
    }
    const sections = { authn: { oidc }, entitlements: 'open' }
    const yaml = Object.entries(sections).map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
    return new SignInRig(new StdioGateway(yaml.join('')), provider)
  }

  connect() {
    const env = { PATH: `${this.#bin}:${process.env['PATH']}`, SIGN_IN_AS: 'ada' }
    return this.gateway.connect(files, { env })
  }

  /** The URLs that the browser was sent to. */
  get opened(): URL[] {
    return readFileSync(join(this.#bin, 'opened'), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((url) => new URL(url))
  }

  get directory(): string {
    return join(this.gateway.home, '.local/state/svc')
  }

  get tokenFile(): string {
    const name = readdirSync(this.directory).find((file) => file.endsWith('.json'))
    return join(this.directory, name ?? expect.fail('no tokens are kept'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.gateway[Symbol.dispose]()
    await this.#provider[Symbol.asyncDispose]()
  }
}

describe('svc stdio with an issuer', function () {
  this.timeout(60_000)

  it('signs its user in once, keeps the tokens for the user alone, and records the user', async () => {
    await using rig = await SignInRig.start()
    for (let process = 0; process < 2; process++) {
      await using connected = await rig.connect()
      expect(Number(await say(connected.client, 'pid'))).to.be.above(0)
    }
    expect(rig.opened).to.have.length(1)
    expect(statSync(rig.tokenFile).mode & 0o777).to.equal(0o600)
    expect(statSync(rig.directory).mode & 0o777).to.equal(0o700)
    const record = rig.gateway.records().find(({ tool }) => tool.startsWith('pid@'))
    expect(record?.principal).to.include({ user: 'ada@example.com' })
  })

  it('signs in once if a client starts several servers at the same time', async () => {
    await using rig = await SignInRig.start()
    const all = await Promise.all([rig.connect(), rig.connect(), rig.connect()])
    for (const connected of all) await connected[Symbol.asyncDispose]()
    expect(rig.opened).to.have.length(1)
  })

  it('signs in again for a scope that a tool requires', async () => {
    await using rig = await SignInRig.start({ clients: 'registered' }, registeredClient)
    await using connected = await rig.connect()
    expect(await say(connected.client, 'echo', { said: 'hi' })).to.equal('hi')
    const scopes = rig.opened.map((url) => url.searchParams.get('scope'))
    expect(scopes).to.deep.equal(['tools offline_access', 'tools files offline_access'])
  })

  it('refreshes its token without the browser', async () => {
    await using rig = await SignInRig.start({ accessTokenTTL: 5 })
    await using connected = await rig.connect()
    const before = readFileSync(rig.tokenFile, 'utf8')
    expect(Number(await say(connected.client, 'pid'))).to.be.above(0)
    expect(readFileSync(rig.tokenFile, 'utf8')).to.not.equal(before)
    expect(rig.opened).to.have.length(1)
  })

  it('signs in again if the issuer no longer refreshes the token', async () => {
    await using rig = await SignInRig.start()
    await (await rig.connect())[Symbol.asyncDispose]()
    const kept = JSON.parse(readFileSync(rig.tokenFile, 'utf8'))
    writeFileSync(rig.tokenFile, JSON.stringify({ ...kept, refreshToken: 'revoked', expiresAt: 0 }))
    chmodSync(rig.tokenFile, 0o600)
    await (await rig.connect())[Symbol.asyncDispose]()
    expect(rig.opened).to.have.length(2)
  })

  it('names the setting to configure if the issuer does not register clients', async () => {
    await using rig = await SignInRig.start({ clients: 'registered' })
    const reason = await rig.connect().catch((error: unknown) => error)
    expect(String(reason)).to.contain('authn.oidc.publicClientId')
    expect(rig.opened).to.have.length(0)
  })
})
