import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { startBucket } from '../../support/bucket.js'
import { TestAuthority } from '../../support/certificates.js'
import { addKey, startControlPlane } from '../../support/control-plane.js'
import { TestIssuer } from '../../support/issuer.js'
import { type OAuthProvider, startOAuthProvider } from '../../support/oauth-provider.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { startTokenEndpoint } from '../../support/token-endpoint.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

interface Check {
  readonly section: string
  readonly severity: string
  readonly message: string
  readonly hint?: string
}

const password = 'hunter2-of-redis'
const apiKey = 'hunter2-of-the-broker'
const adminToken = 'hunter2-of-the-admin-listener'

describe('svc doctor', () => {
  let home: string
  let upstream: TestUpstream
  let env: Record<string, string>

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-doctor-'))
    upstream = await startUpstream()
    generateKeyFile(join(home, 'audit.key'))
    env = { SVC_ADMIN: adminToken, SVC_KEY: apiKey }
  })

  afterEach(async () => {
    await upstream[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  /** Policies are JSON here, which YAML includes. `more` replaces whole sections. */
  function write(more: Record<string, unknown> = {}): string {
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { billing: upstream.url },
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1',
        minFreeMb: 0,
        signer: { keyRef: 'file://audit.key' },
      },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
      ...more,
    }
    const file = join(home, 'policy.yaml')
    writeFileSync(file, JSON.stringify(policy))
    return file
  }

  async function run(...args: string[]): Promise<{ out: string; code: number }> {
    const seen = { out: '', code: 0 }
    const io = {
      out: async (text: string) => {
        seen.out += text
      },
      err: () => undefined,
      exit: (code: number) => {
        seen.code = code
      },
    }
    await doctorCommand(io, env).parseAsync(args, { from: 'user' })
    return seen
  }

  async function checks(more: Record<string, unknown> = {}): Promise<{ checks: Check[]; ok: boolean }> {
    const { out, code } = await run(write(more), '--json')
    const answer = JSON.parse(out) as { checks: Check[]; ok: boolean }
    expect(code).to.equal(answer.ok ? 0 : 1)
    return answer
  }

  /** What there is about a section, as `severity message`. */
  async function about(section: string, more: Record<string, unknown> = {}): Promise<string[]> {
    const found = (await checks(more)).checks.filter((check) => check.section === section)
    return found.map(({ severity, message }) => `${severity} ${message}`)
  }

  describe('on a policy whose parts are all there', () => {
    let redis: RedisServer
    let provider: OAuthProvider

    beforeEach(async () => {
      redis = await startRedis(['--requirepass', password])
      provider = await startOAuthProvider('read')
    })

    afterEach(async () => {
      await redis[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    })

    function everything(): Record<string, unknown> {
      const redisUrl = redis.url.replace('://', `://:${password}@`)
      const tls = new TestAuthority(home).server()
      return {
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', reviewer_roles: ['approver'] },
        server: { tls: { key: `file://${tls.keyFile}`, cert: `file://${tls.certFile}` } },
        authn: { oidc: provider.oidc },
        brokers: {
          billing: {
            type: 'static',
            key_refs: ['env:SVC_KEY'],
            inject: { header: 'authorization', format: 'bearer' },
          },
        },
        quotas: { adapter: 'redis', redisUrl },
        dedupe: { enabled: true, redisUrl },
        security: { side_effects: { approve_high_risk: true } },
        enforcement: {
          escalate_on: ['tool_not_in_allowlist'],
          escalations: { adapter: 'redis', redisUrl },
        },
      }
    }

    it('prints its checks in lines and exits 0 without an error', async () => {
      const { out, code } = await run(write(everything()))
      expect(out.split('\n').filter((line) => line.startsWith('error'))).to.deep.equal([])
      expect(code).to.equal(0)
      expect(out)
        .to.match(/^ok +targets: the server "billing" at .* answers$/m)
        .and.match(/^ok +authn: the key set .* has 1 usable keys$/m)
        .and.match(/^ok +server: the certificate can be used until 20/m)
        .and.match(/^ok +admin: the admin token can be used$/m)
        .and.match(/^ok +brokers: brokers.billing.key_refs\[0\] can be used$/m)
        .and.match(/^ok +quotas: the quota store \(redis\) can be used$/m)
        .and.match(/^ok +dedupe: the dedupe store \(redis\) can be used$/m)
        .and.match(/^ok +enforcement: the escalation store \(redis\) can be used$/m)
        .and.match(/^ok +audit: the signing key can be used$/m)
        .and.match(/audit: the log in .*audit is writable, made at the start/m)
    })

    it('leaves nothing behind: no file, no key in Redis, no call at the upstream', async () => {
      const file = write(everything())
      const before = readdirSync(home, { recursive: true })
      await run(file)
      expect(readdirSync(home, { recursive: true })).to.deep.equal(before)
      const client = `redis://:${password}@127.0.0.1:${redis.port}`
      const { Redis } = await import('ioredis')
      const connection = new Redis(client)
      expect(await connection.dbsize()).to.equal(0)
      connection.disconnect()
      expect(upstream.calls.map(({ method }) => method)).to.deep.equal(['HEAD'])
    })

    it('does not print a secret, of checks that pass or fail', async () => {
      const works = await run(write(everything()))
      const wrong = redis.url.replace('://', '://:hunter2-wrong@')
      env['SVC_KEY'] = 'hunter2-with\na-line-break'
      const fails = await run(write({ ...everything(), quotas: { adapter: 'redis', redisUrl: wrong } }))
      expect(fails.code).to.equal(1)
      expect(fails.out)
        .to.match(/^error +quotas: .*WRONGPASS/m)
        .and.match(/^error +brokers: .*not allowed in a header/m)
      expect(`${works.out}${fails.out}`).not.to.contain('hunter2')
    })
  })

  it('says which store does not answer, and what to do', async () => {
    const [line] = await about('quotas', { quotas: { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1' } })
    expect(line).to.match(/^error the quota store: Redis cannot be reached: connect ECONNREFUSED/)
    const [open] = await about('quotas', {
      quotas: { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1', failure_mode: 'open' },
    })
    expect(open).to.match(/^warning Redis is not connected/)
    const { checks: found } = await checks({ quotas: { adapter: 'redis', redisUrl: 'redis://127.0.0.1:1' } })
    expect(found.find(({ section }) => section === 'quotas')?.hint).to.match(/address and credentials/)
  })

  it('finds a store on disk that is not a database', async () => {
    mkdirSync(join(home, 'quotas'))
    writeFileSync(join(home, 'quotas', 'data.mdb'), 'x'.repeat(100))
    const [line] = await about('quotas', { quotas: { adapter: 'lmdb', dir: 'quotas' } })
    expect(line).to.match(/^error the quota store in .* cannot be used: data.mdb is not an LMDB database/)
    expect(readdirSync(join(home, 'quotas'))).to.deep.equal(['data.mdb'])
  })

  it('finds a directory that is a file, and a disk with less than it needs', async () => {
    writeFileSync(join(home, 'log'), '')
    const audit = { gatewayName: 'edge', gatewayVersion: '1', signer: { keyRef: 'file://audit.key' } }
    expect((await about('audit', { audit: { ...audit, dir: 'log' } }))[1]).to.match(
      /^error the log in .*log is not writable: .*is not a directory/,
    )
    expect((await about('audit', { audit: { ...audit, minFreeMb: 1e12 } }))[1]).to.match(
      /^warning the log in .* MiB free$/,
    )
  })

  it('finds keys that are missing, and one that others may read', async () => {
    rmSync(join(home, 'audit.key'))
    delete env['SVC_KEY']
    const more = {
      admin: { port: 0, tokenRef: 'file://admin.token', reviewer_roles: ['approver'] },
      authn: { oidc: { issuer: 'https://id.invalid/', audience: 'a', jwks_uri: 'http://127.0.0.1:1/' } },
      brokers: {
        billing: { type: 'static', key_refs: ['env:SVC_KEY'], inject: { header: 'x-key', format: 'raw' } },
      },
      privacy: { redact_identities: true, key_ref: 'env:SVC_PSEUDONYMS' },
    }
    const errors = (await checks(more)).checks.filter(({ severity }) => severity === 'error')
    const sections = errors.map(({ section, hint }) => [section, hint !== undefined])
    expect(sections).to.have.deep.members([
      ['admin', true],
      ['audit', true],
      ['authn', true],
      ['brokers', true],
      ['privacy', true],
    ])
    generateKeyFile(join(home, 'audit.key'))
    chmodSync(join(home, 'audit.key'), 0o644)
    expect((await about('audit'))[0]).to.match(/^warning anyone on this machine may read the key file/)
  })

  it('finds an upstream that does not answer, or answers with an error', async () => {
    const failing = await startUpstream((_call, response) => response.writeHead(503).end())
    const lines = await about('targets', {
      targets: { billing: upstream.url, failing: failing.url, gone: 'mcp+http://127.0.0.1:1/mcp' },
    })
    await failing[Symbol.asyncDispose]()
    expect(lines[0]).to.match(/^ok the server "billing"/)
    expect(lines[1]).to.match(/^warning the server "failing" at .* answers with 503$/)
    expect(lines[2]).to.match(
      /^error the server "gone" at http:\/\/127.0.0.1:1\/mcp cannot be reached: connect ECONN/,
    )
  })

  it('warns of a clock that is not that of an upstream', async () => {
    const at = (ms: number) =>
      startUpstream((_call, response) =>
        response.writeHead(200, { date: new Date(Date.now() + ms).toUTCString() }).end(),
      )
    await using ahead = await at(60_000)
    await using behind = await at(-60_000)
    await using close = await at(-2000)
    const lines = await about('targets', {
      targets: { ahead: ahead.url, behind: behind.url, close: close.url },
    })
    expect(lines.filter((line) => line.startsWith('warning'))).to.satisfy(
      ([first, second, ...rest]: string[]) =>
        /^warning the clock of this machine is (59|60) s behind that of the server "ahead"$/.test(
          first ?? '',
        ) &&
        /^warning the clock of this machine is (59|60|61) s ahead of that of the server "behind"$/.test(
          second ?? '',
        ) &&
        rest.length === 0,
    )
  })

  describe('on the issuer', () => {
    let issuer: TestIssuer

    beforeEach(async () => {
      issuer = await TestIssuer.start()
    })

    afterEach(() => issuer.stop())

    it('finds a key set without keys, or without one of the algorithms', async () => {
      const rsa = { ...issuer.oidc, algorithms: ['RS256'] }
      expect(await about('authn', { authn: { oidc: rsa } })).to.satisfy(
        ([line]: string[]) => line?.startsWith('error') && line.includes('has no key for RS256'),
      )
      issuer.keys = []
      expect((await about('authn', { authn: { oidc: issuer.oidc } }))[0]).to.match(
        /^error the key set .* cannot be read: the key set has no key/,
      )
    })

    it('warns where its metadata say otherwise', async () => {
      const provider = await startOAuthProvider('read')
      const oidc = { ...provider.oidc, issuer: `${provider.issuer}/` }
      const lines = await about('authn', { authn: { oidc } })
      await provider[Symbol.asyncDispose]()
      expect(lines).to.include(
        `warning ${provider.issuer}/.well-known/openid-configuration says otherwise than authn.oidc: issuer is ${provider.issuer}`,
      )
    })
  })

  it('finds ports that are taken, by others or by the policy itself', async () => {
    const taken = await listening()
    const { port } = taken.address() as AddressInfo
    const [line] = await about('port', { port })
    await new Promise((resolve) => taken.close(resolve))
    expect(line).to.match(
      /^error the gateway's address 127.0.0.1, port \d+ cannot be used: listen EADDRINUSE/,
    )
    const both = await about('port', { port, admin: { port, tokenRef: 'env:SVC_ADMIN' } })
    expect(both.map((one) => one.split(' ')[0])).to.deep.equal(['ok', 'error'])
  })

  it('finds certificates that expire, and keys that are not theirs', async () => {
    const authority = new TestAuthority(home)
    const [soon, other] = [authority.server('soon', 3), authority.server('other')]
    const tls = (key: string, cert: string) => ({
      server: { tls: { key: `file://${key}`, cert: `file://${cert}` } },
    })
    expect((await about('server', tls(soon.keyFile, soon.certFile)))[0]).to.match(
      /^warning tls.cert: the certificate expires at/,
    )
    expect((await about('server', tls(soon.keyFile, other.certFile)))[0]).to.match(
      /^error tls.cert: the certificate does not belong to tls.key/,
    )
  })

  it('asks the control plane whether it accepts the key, and uploads nothing', async () => {
    const bucket = await startBucket()
    const keys = join(home, 'keys.json')
    const key = addKey(keys)
    const plane = await startControlPlane(bucket, keys)
    try {
      const audit = (auditKey: string) => ({
        audit: {
          ...{
            gatewayName: 'edge',
            gatewayVersion: '1',
            minFreeMb: 0,
            signer: { keyRef: 'file://audit.key' },
          },
          presign: { apiBaseUrl: plane.url, auditKey },
        },
      })
      expect((await about('audit', audit(`Bearer ${key}`))).at(-1)).to.equal(
        'ok the key of the control plane can be used',
      )
      const { checks: found } = await checks(audit('Bearer hunter2'))
      const last = found.filter(({ section }) => section === 'audit').at(-1)
      expect(last).to.include({ severity: 'error' })
      expect(last?.message).to.contain('401')
      expect(JSON.stringify(found)).not.to.contain('hunter2')
      expect(bucket.keys).to.deep.equal([])
    } finally {
      await plane[Symbol.asyncDispose]()
      await bucket[Symbol.asyncDispose]()
    }
  })

  it('asks a token endpoint for no token', async () => {
    const issuer = await TestIssuer.start()
    await using endpoint = await startTokenEndpoint()
    const brokers = {
      billing: {
        type: 'oidc_on_behalf',
        token_endpoint: endpoint.url,
        client_id: 'edge',
        client_secret_ref: 'env:SVC_KEY',
        inject: { header: 'authorization', format: 'bearer' },
      },
    }
    const lines = await about('brokers', { authn: { oidc: issuer.oidc }, brokers })
    await issuer.stop()
    expect(lines.map((line) => line.split(' ')[0])).to.deep.equal(['ok', 'ok'])
    expect(endpoint.exchanges.map(({ form }) => [...form])).to.deep.equal([[]])
  })

  it('finds a webhook with a private name, one that responds, and an invalid secret', async () => {
    env['SVC_HOOK'] = 'hunter2 is no base64'
    const lines = await about('notices', {
      notices: [{ url: 'https://localhost.localdomain/' }, { url: upstream.url, secretRef: 'env:SVC_HOOK' }],
    })
    expect(lines[0]).to.match(/^error the webhook notices\[0\] at .* cannot be reached/)
    expect(lines[1]).to.match(/^ok the webhook notices\[1\] at/)
    expect(lines[2]).to.match(
      /^error the secret of the webhook notices\[1\] cannot be used: the secret is not base64$/,
    )
    expect(upstream.calls.map(({ method }) => method)).to.deep.equal(['HEAD', 'HEAD'])
  })

  it('finds a runtime that does not answer', async () => {
    const runtime = {
      enforcement: { mode: 'remote', remote: { endpoint: 'http://127.0.0.1:1/', apiKeyRef: 'env:SVC_NONE' } },
    }
    expect((await about('runtime', { runtime })).map((line) => line.split(' ')[0])).to.deep.equal([
      'error',
      'error',
    ])
  })

  it('runs the checks of custom plugins, and reports one that throws', async () => {
    writeFileSync(
      join(home, 'custom.mjs'),
      `export default {
        name: 'custom', version: '1.0.0', core: '^1.0.0', presence: 'always',
        schema: { safeParse: () => ({ success: true, data: {} }), '~standard': {}, _zod: { def: { type: 'any' } } },
        create: () => ({ handle: (_call, next) => next() }),
        doctor: async () => { throw new Error('the vault is sealed') },
      }`,
    )
    expect(await about('custom', { plugins: [{ use: './custom.mjs' }] })).to.deep.equal([
      'error the vault is sealed',
    ])
  })

  it('reports the mistakes of a policy, and opens nothing then', async () => {
    const file = write({ quota: {} })
    const { out, code } = await run(file)
    expect(code).to.equal(1)
    expect(out)
      .to.match(/^error +policy: .*quota/m)
      .and.not.match(/ targets:/)
    expect(upstream.calls).to.deep.equal([])
    expect((await run(join(home, 'none.yaml'))).code).to.equal(1)
  })

  it('starts each command, lists its tools, and says which of them the policy lets whom use', async () => {
    const entitlements = {
      default_plan: 'free',
      plans: { free: { allowlist: ['files/echo'] } },
      tenants: { acme: { plan: 'free', allowlist: ['files/*'], denylist: [] } },
    }
    const targets = {
      files: scriptedTarget(),
      modern: scriptedTarget('stateless'),
      broken: scriptedTarget('exit'),
    }
    const issuer = await TestIssuer.start()
    const { out, code } = await run(write({ targets, entitlements, authn: { oidc: issuer.oidc } }))
    await issuer.stop()
    expect(code).to.equal(1)
    expect(out).to.match(
      /ok +targets: the server "files" starts: version 3\.1\.0, revision 2025-06-18, \d+ tools: echo, pid/,
    )
    expect(out).to.include('the server "modern" starts: version 3.1.0, revision 2026-07-28')
    expect(out).to.match(/ok +targets: tenant "acme" may use of "files": all its tools/)
    expect(out).to.match(/ok +targets: each other tenant may use of "files": 1 tool: echo/)
    expect(out).to.match(/ok +targets: each other tenant may use of "modern": no tool/)
    expect(out).to.match(/error +targets: The MCP server "broken" is not running: it exited with code 4/)
  })
})

async function listening(): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
