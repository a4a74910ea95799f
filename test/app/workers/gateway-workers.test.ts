import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { availableCores } from 'svc-sdk/internal/workers/worker-count'
import { startBucket } from '../../support/bucket.js'
import { runSvc } from '../../support/command.js'
import { addKey, owner, startControlPlane } from '../../support/control-plane.js'
import { Running } from '../../support/gateway-process.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { until } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const token = 'the-token-of-this-one-test'

/** Sends one call on a connection of its own, so that calls go to the workers in turn. Resolves with the status. */
function call(url: string | undefined): Promise<number> {
  return new Promise((resolve, reject) => {
    const agent = new Agent()
    const sending = request(
      `${url}/mcp/files/read@1`,
      { method: 'POST', agent, timeout: 20_000 },
      (response) => {
        response.resume().once('end', () => resolve(response.statusCode ?? 0))
      },
    )
    sending.once('timeout', () => sending.destroy(new Error('no response in time')))
    sending.once('error', reject).once('close', () => agent.destroy())
    sending.end('{}')
  })
}

/** Makes a call, or opens a stream without `name`. Resolves with 200, the message of a refusal, or the code of an error. */
function reply(url: string, agent: Agent, name?: string): Promise<number | string> {
  return new Promise((resolve) => {
    const isCall = name !== undefined
    const path = isCall ? '/mcp/files/read@1' : '/mcp/files'
    const sending = request(url + path, { method: isCall ? 'POST' : 'GET', agent }, (response) => {
      if (response.statusCode === 200 && !isCall) return resolve(200)
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.once('end', () => resolve(response.statusCode === 200 ? 200 : text))
    })
    sending.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
    sending.end(isCall ? JSON.stringify({ name }) : undefined)
  })
}

async function metricsOf(adminUrl: string | undefined): Promise<string> {
  const response = await fetch(`${adminUrl}/metrics`, { headers: { authorization: `Bearer ${token}` } })
  return response.text()
}

/** The sum of a metric over its labels. */
function totalOf(metrics: string, name: string): number {
  const values = metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

const faultyStage = new URL('./faulty-stage.js', import.meta.url).href

describe('svc gateway --workers', function () {
  this.timeout(120_000)
  let home: string
  let policy: string
  let upstream: TestUpstream

  /** `plan` limits the calls of each tool. */
  const write = ({ sections = '', quotas = 'lmdb', plan = '{}' } = {}): void =>
    writeFileSync(
      policy,
      `tenant: acme
port: 0
targets: { files: "${upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key }, checkpointIntervalMs: 100, intent: all }
entitlements: { default_plan: free, tenants: { acme: { plan: free, allowlist: [files/read] } }, plans: { free: ${plan} } }
quotas: { adapter: ${quotas} }
authn: { allowUnauthenticated: true }
admin: { port: 0, tokenRef: file://token }
${sections}`,
    )
  const writeFaulty = (fault: string): void => {
    const faulty = `{ fault: ${fault}, file: ${join(home, 'broken')} }`
    write({ sections: `plugins: [{ use: "${faultyStage}" }]\nfaulty: ${faulty}\n` })
  }
  const start = (): Running => new Running(['--policy', policy, '--workers', '2'])

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    policy = join(home, 'policy.yaml')
    generateKeyFile(join(home, 'key'))
    writeFileSync(join(home, 'token'), token, { mode: 0o600 })
    upstream = await startUpstream()
    write()
  })

  afterEach(async () => {
    await upstream[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  /** Waits for both workers. */
  async function started(gateway: Running) {
    const pids = new Map<number, number>()
    for (let i = 0; i < 2; i++) {
      const { worker = -1, pid = 0 } = await gateway.line('worker started')
      pids.set(worker, pid)
    }
    const { url, adminUrl } = await gateway.line('listening')
    return { url, adminUrl, pidOf: (worker: number) => pids.get(worker) ?? 0 }
  }

  /** Ends it, and expects a log without a finding. Returns how many records it has. */
  async function ended(gateway: Running): Promise<number> {
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    const { out, code } = await runSvc('audit', 'verify', join(home, '.svc', 'audit'), '--json')
    expect(code, out).to.equal(0)
    return (JSON.parse(out) as { records: number }).records
  }

  it('serves on one port with one quota, one log and one set of metrics, and ends with 0', async () => {
    write({ plan: '{ calls_per_day: 7 }' })
    await using gateway = start()
    const { url, adminUrl } = await started(gateway)
    const statuses = await Promise.all(Array.from({ length: 20 }, () => call(url)))
    expect(
      statuses.filter((status) => status === 200),
      String(statuses),
    ).to.have.length(7)
    expect(statuses.filter((status) => status === 429)).to.have.length(13)
    const metrics = await metricsOf(adminUrl)
    expect(totalOf(metrics, 'svc_calls_total')).to.equal(20)
    expect(totalOf(metrics, 'svc_workers')).to.equal(2)
    expect(metrics)
      .to.match(/^svc_ready\{worker="0"\} 1$/m)
      .and.to.match(/^svc_ready\{worker="1"\} 1$/m)
    expect(await ended(gateway)).to.equal(20)
  })

  it('counts connections, calls and streams of a tenant for the host', async () => {
    const held = heldUpstream()
    await using tools = await startUpstream((asked, response) => {
      if (asked.method === 'GET')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      else if (asked.body.includes('held')) held.response(asked, response)
      else response.setHeader('content-type', 'application/json').end('{}')
    })
    const limits = 'maxConnectionsPerTenant: 8, maxStreamsPerTenant: 3, maxCallsPerTenant: 2'
    write({ sections: `server: { ${limits}, keepAliveTimeoutMs: 600000 }\n` })
    writeFileSync(policy, readFileSync(policy, 'utf8').replace(upstream.url, tools.url))
    await using gateway = start()
    const { url = '' } = await started(gateway)
    // A connection each, which stays open after a call.
    const agents = Array.from({ length: 8 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
    for (const agent of agents) expect(await reply(url, agent, 'quick')).to.equal(200)
    expect(await reply(url, new Agent(), 'quick')).to.match(/as many connections/)
    const streams = []
    for (const agent of agents.slice(0, 4)) streams.push(await reply(url, agent))
    expect(streams.slice(0, 3)).to.deep.equal([200, 200, 200])
    expect(streams[3]).to.match(/3 streams open/)
    const calls = agents.slice(4).map((agent) => reply(url, agent, 'held'))
    const responses = [await held.next(), await held.next()]
    const refused = calls.map((one) =>
      one.then((what) => (what === 200 ? new Promise(() => undefined) : what)),
    )
    expect(await Promise.race(refused)).to.match(/2 calls in flight/)
    for (const response of responses) response.end('{}')
    expect((await Promise.all(calls)).filter((what) => what === 200)).to.have.length(2)
    for (const agent of agents) agent.destroy()
    await ended(gateway)
  })

  it('starts as many with --workers auto as there are cores', async () => {
    await using gateway = new Running(['--policy', policy, '--workers', 'auto'])
    const { url, adminUrl } = await gateway.line('listening')
    expect(await call(url)).to.equal(200)
    const cores = availableCores()
    // A gateway of one process has no such metric.
    expect(totalOf(await metricsOf(adminUrl), 'svc_workers')).to.equal(cores > 1 ? cores : 0)
    await ended(gateway)
  })

  it('uploads in one process, each byte once', async () => {
    await using bucket = await startBucket()
    const key = addKey(join(home, 'keys.json'), { ...owner, clientName: 'gw' })
    await using plane = await startControlPlane(bucket, join(home, 'keys.json'))
    const presign = `presign: { apiBaseUrl: "${plane.url}", auditKey: Bearer ${key}, intervalMs: 50 }`
    write()
    writeFileSync(policy, readFileSync(policy, 'utf8').replace('audit: {', `audit: { ${presign},`))
    await using gateway = start()
    const { url } = await started(gateway)
    const inBucket = () => bucket.keys.filter((name) => name.includes('/ingest/'))
    for (let round = 1; round <= 3; round++) {
      for (let i = 0; i < 2; i++) expect(await call(url)).to.equal(200)
      await until(async () => inBucket().length >= round, 60_000)
    }
    await ended(gateway)
    const log = join(home, '.svc', 'audit')
    const uploaded = await Promise.all(inBucket().map((name) => bucket.read(name)))
    const stored = readdirSync(log).filter((name) => /^audit-[\d-]+\.ndjson$/.test(name))
    const kept = stored.map((name) => readFileSync(join(log, name), 'utf8')).join('')
    expect(uploaded.join('')).to.equal(kept)
    expect(new Set(bucket.statuses)).to.deep.equal(new Set([200]))
  })

  it('replaces killed workers while its port stays open, and loses no call that it responded to', async () => {
    await using gateway = start()
    const { url, adminUrl, pidOf } = await started(gateway)
    const replaced: number[] = []
    const results: Promise<number | string>[] = []
    const send = (): void => {
      results.push(call(url).catch((error: NodeJS.ErrnoException) => error.code ?? error.message))
    }
    const sending = setInterval(send, 20)
    for (const worker of [0, 1]) {
      process.kill(pidOf(worker), 'SIGKILL')
      const { pid = 0, ...line } = await gateway.line('worker started')
      expect(line.worker).to.equal(worker)
      replaced.push(pid)
    }
    for (const pid of replaced) process.kill(pid, 'SIGKILL')
    for (const _ of replaced) await gateway.line('worker started')
    clearInterval(sending)
    const ends = await Promise.all(results)
    // What a killed worker was working on ends without a response. No connection is refused, even while there is no worker.
    expect(ends.filter((end) => end !== 200 && end !== 'ECONNRESET')).to.deep.equal([])
    const responded = ends.filter((end) => end === 200).length
    expect(responded).to.be.greaterThan(ends.length / 2)
    expect(totalOf(await metricsOf(adminUrl), 'svc_worker_restarts_total')).to.equal(4)
    const records = await ended(gateway)
    expect(records).to.be.within(responded, ends.length)
    expect(records).to.be.at.least(upstream.calls.length)
  })

  it('reloads in all workers or in none, also if one dies meanwhile', async () => {
    writeFaulty('none')
    await using gateway = start()
    const { url, adminUrl } = await started(gateway)
    const reload = async (fault: string, says: string) => {
      writeFaulty(fault)
      gateway.child.kill('SIGHUP')
      return gateway.line(says)
    }
    const refused = 'policy not reloaded; the old one stays in force'
    expect((await reload('fails in worker 1', refused)).reason).to.match(/worker 1 cannot start it/)
    expect((await reload('dies in worker 1', refused)).reason).to.match(/a worker has ended/)
    expect((await gateway.line('worker started')).worker).to.equal(1)
    writeFileSync(policy, 'tenant: [')
    gateway.child.kill('SIGHUP')
    await gateway.line(refused)
    await reload('dies in worker 1 when it stops', 'policy reloaded')
    await reload('none', 'policy reloaded')
    // Worker 1 died when its policy was replaced, and is replaced by one that runs the new policy.
    expect((await gateway.line('worker started')).worker).to.equal(1)
    const digests = new Set<string | undefined>()
    for (let i = 0; i < 4; i++) expect(await call(url)).to.equal(200)
    const { out } = await runSvc(
      'audit',
      'show',
      join(home, '.svc', 'audit'),
      '--tool',
      'read',
      '--format',
      'json',
    )
    for (const line of out.trim().split('\n'))
      digests.add((JSON.parse(line) as { policy_sha256: string }).policy_sha256)
    expect(digests.size).to.equal(1)
    const metrics = await metricsOf(adminUrl)
    expect(metrics).to.match(/^svc_policy_reloads_total\{result="success"\} 2$/m)
    expect(metrics).to.match(/^svc_policy_reloads_total\{result="refused"\} 3$/m)
    await ended(gateway)
  })

  it('ends with 1 if the replacements of a worker keep failing', async () => {
    writeFaulty('dies')
    await using gateway = start()
    const { pidOf } = await started(gateway)
    writeFileSync(join(home, 'broken'), '')
    process.kill(pidOf(0), 'SIGKILL')
    expect((await gateway.line('the gateway ends')).reason).to.match(/^worker 0 has ended too often/)
    expect(await gateway.exit).to.equal(1)
  })

  it('refuses stores in memory, and reports a start that fails once', async () => {
    const escalations = 'enforcement: { escalate_on: [egress_violation], escalations: { adapter: memory } }'
    write({ quotas: 'memory', sections: `${escalations}\n` })
    await using refused = start()
    expect(await refused.exit).to.equal(1)
    const mistakes = refused.stderr.trim().split('\n')
    const message =
      '"memory" is that of one process, and there are 2 workers; use lmdb or redis, or --workers 1'
    for (const path of ['quotas.adapter', 'enforcement.escalations.adapter'])
      expect(mistakes.filter((line) => line.endsWith(` ${path}: ${message}`))).to.have.length(1)
    writeFaulty('fails in worker 1')
    await using failed = start()
    expect(await failed.exit).to.equal(1)
    expect(failed.stderr).to.equal('svc-sdk gateway: stage faulty did not start: worker 1 cannot start it\n')
  })
})
