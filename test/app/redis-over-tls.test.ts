// The store of limits over TLS: a server that shows no certificate we trust is not asked.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { TestAuthority } from '../support/certificates.js'
import { Running } from '../support/gateway-process.js'
import { startTlsRedis } from '../support/redis.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

describe('a gateway with Redis over TLS', function () {
  this.timeout(60_000)
  let home: string
  let upstream: TestUpstream
  let authority: TestAuthority
  let redis: Awaited<ReturnType<typeof startTlsRedis>>

  before(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    upstream = await startUpstream((_call, response) => void response.end('{}'))
    authority = new TestAuthority(home)
    redis = await startTlsRedis(authority.server('redis'))
  })

  after(async () => {
    await redis[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  function gateway(redisUrl: string, trusted: TestAuthority | undefined): Running {
    const policy = join(home, 'policy.yaml')
    writeFileSync(
      policy,
      `tenant: acme
port: 1
targets: { files: "${upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
authn: { allowUnauthenticated: true }
entitlements:
  default_plan: free
  plans: { free: { calls_per_day: 1, allowlist: ["*"] } }
  tenants: {}
quotas: { adapter: redis, redisUrl: "${redisUrl}", redis: { connectTimeoutMs: 10000 } }
`,
    )
    const env = trusted === undefined ? {} : { NODE_EXTRA_CA_CERTS: trusted.root.certFile }
    return new Running(['--policy', policy, '--port', '0', '--dir', join(home, 'state')], env)
  }

  /** What a gateway that cannot start says. */
  async function refusal(redisUrl: string, trusted?: TestAuthority): Promise<string> {
    await using running = gateway(redisUrl, trusted)
    expect(await running.exit).to.equal(1)
    return running.stderr
  }

  it('counts there, where it trusts the authority that signed for it', async () => {
    await using running = gateway(`rediss://127.0.0.1:${redis.port}`, authority)
    const { url } = await running.line('listening')
    const call = async () =>
      (await fetch(`${url}/mcp/files/read@1.0.0`, { method: 'POST', body: '{}' })).status
    expect([await call(), await call()]).to.deep.equal([200, 429])
  })

  it('does not start with a server that some other authority signed for, and says why', async () => {
    expect(await refusal(`rediss://127.0.0.1:${redis.port}`)).to.match(
      /stage quotas did not start: Redis cannot be reached: .*certificate/,
    )
    const other = new TestAuthority(home, 'Other Root')
    expect(await refusal(`rediss://127.0.0.1:${redis.port}`, other)).to.match(
      /cannot be reached: .*certificate/,
    )
  })

  it('does not start with a server that the certificate is not for', async () => {
    // Another name of the same machine, which the certificate does not hold.
    expect(await refusal(`rediss://127.0.0.2:${redis.port}`, authority)).to.match(
      /cannot be reached: .*(?:altnames|cert's list)/,
    )
  })

  it('does not start where only one side uses TLS', async () => {
    expect(await refusal(`redis://127.0.0.1:${redis.port}`, authority)).to.match(/cannot be reached: /)
  })
})
