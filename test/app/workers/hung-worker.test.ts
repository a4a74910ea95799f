import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { runSvc } from '../../support/command.js'
import { Running } from '../../support/gateway-process.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { until } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const faultyStage = new URL('./faulty-stage.js', import.meta.url).href
const DOES_NOT_RESPOND = 'a worker does not respond, and is ended'

/** On a connection of its own. Resolves with the status, or the code of the connection's error. */
function send(url: string): Promise<number | string> {
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: 'POST', agent: false, timeout: 40_000 }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
      response.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
    })
    sending.once('timeout', () => reject(new Error('no response in time')))
    sending.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
    sending.end('{}')
  })
}

describe('a worker whose event loop is blocked', function () {
  this.timeout(90_000)
  let home: string
  let upstream: TestUpstream
  let gateway: Running
  let url: string
  const held = heldUpstream()
  const write = (): void =>
    writeFileSync(
      join(home, 'policy.yaml'),
      `tenant: acme
port: 0
targets: { files: "${upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: { default_plan: free, tenants: { acme: { plan: free, allowlist: ["files/*"] } }, plans: { free: {} } }
quotas: { adapter: lmdb }
authn: { allowUnauthenticated: true }
server: { maxCallsPerTenant: 4 }
plugins: [{ use: "${faultyStage}" }]
faulty: { fault: hangs in worker 1, file: ${join(home, 'broken')} }
`,
    )
  const call = (tool = 'read') => send(`${url}/mcp/files/${tool}@1`)
  /** Undefined if there are none, or a blocked worker has the connection. */
  const warnings = async (): Promise<unknown> => {
    const how = { headers: { connection: 'close' }, signal: AbortSignal.timeout(1_000) }
    const asked = fetch(`${url}/readyz`, how).then((response) => response.json() as { warnings?: unknown })
    return (await asked.catch(() => ({ warnings: undefined }))).warnings
  }

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    upstream = await startUpstream((asked, response) => {
      if (asked.path.includes('slow')) held.response(asked, response)
      else response.setHeader('content-type', 'application/json').end('{}')
    })
    write()
    gateway = new Running(['--policy', join(home, 'policy.yaml'), '--workers', '2'])
    url = String((await gateway.line('listening')).url)
  })

  afterEach(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true, maxRetries: 20 })
  })

  /** Blocks worker 1. Resolves with the calls of which one has blocked it. */
  async function block(): Promise<Promise<number | string>[]> {
    writeFileSync(join(home, 'broken'), '')
    const calls = [call(), call()]
    await until(async () => !existsSync(join(home, 'broken')))
    return calls
  }

  it('is ended and replaced; connections, limits and reloads go on meanwhile, and nothing is lost', async () => {
    const blocking = await block()
    const slow = Array.from({ length: 8 }, () => call('slow'))
    // Of the four calls that the tenant may have one is at the blocked worker.
    const responses = [await held.next(), await held.next(), await held.next()]
    expect(await Promise.race(slow)).to.equal(429)
    gateway.child.kill('SIGHUP')
    await until(async () => (await warnings()) !== undefined)
    expect(await warnings()).to.deep.equal(['1 of 2 workers does not serve'])
    expect(gateway.lines.map(({ msg }) => msg)).not.to.include(DOES_NOT_RESPOND)
    expect((await gateway.line(DOES_NOT_RESPOND)).worker).to.equal(1)
    expect((await gateway.line('a worker has ended')).hungMs).to.be.within(10_000, 12_000)
    await gateway.line('policy reloaded')
    expect((await gateway.line('worker started')).worker).to.equal(1)
    expect((await Promise.all(blocking)).toSorted()).to.deep.equal([200, 'ECONNRESET'])
    await until(async () => (await warnings()) === undefined)
    for (const response of responses) response.end('{}')
    const done = Promise.all(slow)
    // Those that the blocked worker had not accepted.
    const isDone = done.then(() => undefined)
    for (;;) {
      const response = await Promise.race([held.next(), isDone])
      if (response === undefined) break
      response.end('{}')
    }
    expect(new Set(await done)).to.deep.equal(new Set([200, 429]))
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    const { out, code } = await runSvc('audit', 'verify', join(home, '.svc', 'audit'), '--json')
    expect(code, out).to.equal(0)
  })

  it('does not keep the gateway from its end, which is not a clean one', async () => {
    await block()
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(1)
    expect((await gateway.allLines()).map(({ msg }) => msg)).to.include(DOES_NOT_RESPOND)
  })
})
