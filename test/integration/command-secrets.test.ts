// Every secret that a policy may take from a command, in one gateway that takes all of them from commands: a vault of files, whose
// program notes which of them it was asked for.
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect } from 'chai'
import { Webhook as Verifier } from 'standardwebhooks'
import type { GatewaySettings } from 'svc-sdk'
import { Agent, fetch as undiciFetch } from 'undici'
import { type Certificate, TestAuthority } from '../support/certificates.js'
import { startTestGateway } from '../support/gateway.js'
import { scriptedTarget, until } from '../support/stdio-target.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { startWebhook } from '../support/webhook.js'

const reference = readFileSync(new URL('../../../docs/reference/policy.md', import.meta.url), 'utf8')
/** The members of a policy whose description names `command:`. */
const documented = [...reference.matchAll(/^\| `([^`]+)` \|.*\bcommand:NAME.*$/gm)].map(
  ([, path = '']) => path,
)

class Vault {
  readonly #dir: string

  constructor(dir: string) {
    this.#dir = dir
  }

  set(name: string, secret: string): void {
    writeFileSync(join(this.#dir, name), secret)
  }

  /** The section `secrets` of a policy, by which `command:NAME` is what was set for the name. */
  commands(names: readonly string[]): NonNullable<GatewaySettings['secrets']> {
    const script = 'echo "$2" >> "$1/asked"; cat "$1/$2"'
    return Object.fromEntries(
      names.map((name) => [
        name,
        { command: 'sh', args: ['-c', script, 'vault', this.#dir, name], cache_ms: 0 },
      ]),
    )
  }

  get asked(): string[] {
    return [...new Set(readFileSync(join(this.#dir, 'asked'), 'utf8').trim().split('\n'))].sort()
  }
}

describe('a gateway whose secrets are all printed by commands', () => {
  const home = temporaryDir()

  it('serves, signs and starts servers with them, takes up new ones, and prints none', async () => {
    const vault = new Vault(home.path)
    const authority = new TestAuthority(home.path)
    const random = () => randomBytes(24).toString('hex')
    const certificates = {
      server: authority.server('server'),
      admin: authority.server('admin'),
    }
    const pem = ([name, { key, cert }]: [string, Certificate]) => [
      [`${name}-key`, key],
      [`${name}-cert`, cert],
    ]
    const secrets: Record<string, string> = {
      'server-ca': authority.root.cert,
      'admin-ca': authority.root.cert,
      session: random(),
      token: random(),
      hook: `whsec_${randomBytes(32).toString('base64')}`,
      pseudonyms: random(),
      runtime: random(),
      broker: random(),
      child: random(),
      ...Object.fromEntries(Object.entries(certificates).flatMap(pem)),
    }
    for (const [name, secret] of Object.entries(secrets)) vault.set(name, secret)
    await using upstream = await startUpstream()
    await using hook = await startWebhook()
    await using runtime = await startUpstream(({ body }, response) => {
      const { protocolVersion } = JSON.parse(body) as { protocolVersion: string }
      response.end(JSON.stringify({ protocolVersion, decision: { action: 'allow' } }))
    })
    await using gateway = await startTestGateway((dir) => ({
      targets: {
        files: upstream.url,
        local: scriptedTarget('', { env: { TOKEN: 'command:child' } }),
      },
      secrets: vault.commands(Object.keys(secrets)),
      server: {
        sessionKeyRef: 'command:session',
        tls: { key: 'command:server-key', cert: 'command:server-cert', clientCa: 'command:server-ca' },
      },
      admin: {
        port: 0,
        tokenRef: 'command:token',
        tls: { key: 'command:admin-key', cert: 'command:admin-cert', clientCa: 'command:admin-ca' },
      },
      notices: [{ url: hook.url, secretRef: 'command:hook' }],
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: join(dir, 'audit'),
        signer: { keyRef: `file://${join(dir, 'key')}` },
      },
      privacy: { redact_identities: true, key_ref: 'command:pseudonyms' },
      brokers: {
        files: {
          type: 'static',
          key_refs: ['command:broker'],
          inject: { header: 'x-api-key', format: 'raw' },
        },
      },
      runtime: {
        enforcement: { mode: 'remote', remote: { endpoint: runtime.url, apiKeyRef: 'command:runtime' } },
      },
    }))
    const { adminUrl = '' } = await gateway.handle.ready()
    const { cert, key } = authority.client('caller')
    const dispatcher = new Agent({ connect: { ca: authority.root.cert, cert, key } })
    const post = (path: string) =>
      undiciFetch(`${gateway.url}${path}`, { method: 'POST', body: '{}', dispatcher })
    const adminStatus = async (token: string) =>
      (
        await undiciFetch(`${adminUrl}/api/health`, {
          headers: { authorization: `Bearer ${token}` },
          dispatcher,
        })
      ).status

    expect((await post('/mcp/files/read@1')).status).to.equal(200)
    expect(upstream.calls[0]?.headers).to.include({ 'x-api-key': secrets['broker'] })
    expect(runtime.calls[0]?.headers).to.include({ authorization: `Bearer ${secrets['runtime']}` })
    const child = await (await post('/mcp/local/env@1')).text()
    expect(child).to.contain(secrets['child'])
    expect(await adminStatus(secrets['token'] ?? '')).to.equal(200)
    await gateway.handle.reload({})
    await hook.until(1)
    const [notice] = hook.deliveries
    new Verifier(secrets['hook'] ?? '').verify(notice?.body ?? '', notice?.headers as Record<string, string>)
    expect(vault.asked).to.deep.equal(Object.keys(secrets).sort())

    // New ones in the vault are taken up by the running gateway.
    const renewed = { token: random(), broker: random(), certificate: authority.server('renewed') }
    vault.set('token', renewed.token)
    vault.set('broker', renewed.broker)
    vault.set('server-key', renewed.certificate.key)
    vault.set('server-cert', renewed.certificate.cert)
    await until(async () => (await adminStatus(renewed.token)) === 200)
    expect(await adminStatus(secrets['token'] ?? '')).to.equal(401)
    await until(async () => {
      await (await post('/mcp/files/read@1')).text()
      return upstream.calls.at(-1)?.headers['x-api-key'] === renewed.broker
    })
    // It looks for other certificates every few seconds, and at a reload at once.
    await gateway.handle.reload({})
    await until(
      async () => (await servedName(gateway.url, { ca: authority.root.cert, cert, key })) === 'renewed',
    )
    await dispatcher.close()

    const printed = JSON.stringify([gateway.log.lines, gateway.records()])
    for (const [name, secret] of Object.entries({ ...secrets, ...renewed }))
      if (typeof secret === 'string' && !name.endsWith('-ca'))
        expect(printed.includes(secret), name).to.equal(false)
  }).timeout(60_000)

  it('are all that the reference of the policy documents, beside the section itself', () => {
    expect(documented).to.have.members([
      'targets.<name>.env',
      'server.sessionKeyRef',
      ...['server', 'admin'].flatMap((place) =>
        ['key', 'cert', 'clientCa'].map((one) => `${place}.tls.${one}`),
      ),
      'admin.tokenRef',
      'notices[].secretRef',
      'secrets',
      'key_ref',
      'enforcement.remote.apiKeyRef',
      '<name>.key_refs',
    ])
  })
})

async function servedName(url: string, options: { ca: string; cert: string; key: string }): Promise<string> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', ...options })
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject))
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}
