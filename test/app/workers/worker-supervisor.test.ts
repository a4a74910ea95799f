import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { lockPort } from 'svc-sdk/internal/workers/port-lock'
import { startBucket } from '../../support/bucket.js'
import { runSvc } from '../../support/command.js'
import { addKey, owner, startControlPlane } from '../../support/control-plane.js'
import { Running, startWorkers } from '../../support/gateway-process.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { until } from '../../support/redis.js'
import { sharingRuntime } from '../../support/runtimes.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const token = 'the-token-of-this-one-test'
const authorization = `Bearer ${token}`

/** Sends one call on a connection of its own, which the system gives to any worker. Resolves with the status, or the code of an error. */
function call(url: string): Promise<number | string> {
  return new Promise((resolve) => {
    const to = `${url}/mcp/files/read@1`
    const sending = request(to, { method: 'POST', agent: false, timeout: 20_000 }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
      response.once('error', () => resolve('ECONNRESET'))
    })
    sending.once('timeout', () => sending.destroy(new Error('no response in time')))
    sending.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    sending.end('{}')
  })
}

const calls = (url: string, count: number) => Promise.all(Array.from({ length: count }, () => call(url)))

async function metricsOf(adminUrl: string): Promise<string> {
  const response = await fetch(`${adminUrl}/metrics`, { headers: { authorization } })
  return response.text()
}

/** The values of a metric, over its labels. */
function valuesOf(metrics: string, name: string): number[] {
  return metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(' '))))
}

const totalOf = (metrics: string, name: string) =>
  valuesOf(metrics, name).reduce((sum, value) => sum + value, 0)

describe('svc gateway --workers', function () {
  this.timeout(120_000)
  let policy: string
  let upstream: TestUpstream

  const write = ({
    sections = '',
    quotas = 'lmdb',
    tool = 'files/read',
    audit = '',
    targets = `{ files: "${upstream.url}" }`,
    port = 0,
  } = {}): void =>
    writeFileSync(
      policy,
      `tenant: acme
port: ${port}
targets: ${targets}
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key }, intent: all${audit} }
entitlements: { default_plan: free, tenants: { acme: { plan: free, allowlist: ["${tool}"] } }, plans: { free: { calls_per_day: 100 } } }
quotas: { adapter: ${quotas} }
authn: { allowUnauthenticated: true }
admin: { port: 0, tokenRef: file://token }
${sections}`,
    )
  const start = (...args: string[]): Running => startWorkers(['--policy', policy, ...args])

  const home = temporaryDir()
  beforeEach(async () => {
    policy = join(home.path, 'policy.yaml')
    generateKeyFile(join(home.path, 'key'))
    writeFileSync(join(home.path, 'token'), token, { mode: 0o600 })
    upstream = await startUpstream()
    write()
  })

  afterEach(async () => {
    await upstream[Symbol.asyncDispose]()
  })

  /** Waits for both workers. */
  async function started(gateway: Running) {
    const pids = new Map<number, number>()
    for (let i = 0; i < 2; i++) {
      const { worker = -1, pid = 0 } = await gateway.line('worker started')
      pids.set(worker, pid)
    }
    const { url = '', adminUrl = '' } = await gateway.line('listening')
    return { url, adminUrl, pidOf: (worker: number) => pids.get(worker) ?? 0 }
  }

  /** Ends it, and expects a log without a finding. Returns how many records of calls it has. */
  async function ended(gateway: Running): Promise<number> {
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    const log = join(home.path, '.svc', 'audit')
    const { out, code } = await runSvc('audit', 'verify', log, '--json')
    expect(code, out).to.equal(0)
    const shown = await runSvc('audit', 'show', log, '--tool', 'read', '--format', 'json')
    return shown.out.trim().split('\n').filter(Boolean).length
  }

  // On Node 22; the next test runs on Node 26, the others on Node 24.
  it('serves with two processes on one port, with one log and the sum of their metrics, until calls have ended', async () => {
    const held = heldUpstream()
    await using tools = await startUpstream((asked, response) => held.response(asked, response))
    write({ targets: `{ files: "${tools.url}" }` })
    await using gateway = startWorkers(['--policy', policy], {}, sharingRuntime('22'))
    const { url, adminUrl } = await started(gateway)
    // The system gives all of them to one worker once in 32,768 times.
    const sent = calls(url, 16)
    const responses = []
    for (let i = 0; i < 16; i++) responses.push(await held.next())
    const during = await metricsOf(adminUrl)
    const inFlight = valuesOf(during, 'svc_calls_in_flight')
    expect(inFlight).to.have.length(2)
    expect(Math.min(...inFlight), String(inFlight)).to.be.at.least(1)
    expect(totalOf(during, 'svc_calls_in_flight')).to.equal(16)
    for (const response of responses) response.setHeader('content-type', 'application/json').end('{}')
    expect(new Set(await sent)).to.deep.equal(new Set([200]))
    const after = await metricsOf(adminUrl)
    expect(totalOf(after, 'svc_calls_total')).to.equal(16)
    expect(valuesOf(after, 'svc_workers')).to.deep.equal([2])
    const last = calls(url, 8)
    const pending = []
    for (let i = 0; i < 8; i++) pending.push(await held.next())
    const ending = ended(gateway)
    await gateway.line('draining')
    for (const response of pending) response.setHeader('content-type', 'application/json').end('{}')
    expect(new Set(await last)).to.deep.equal(new Set([200]))
    expect(await ending).to.equal(24)
  })

  it('replaces killed workers, and loses no call that it responded to', async () => {
    await using gateway = startWorkers(['--policy', policy], {}, sharingRuntime('26'))
    const { url, adminUrl, pidOf } = await started(gateway)
    const results: Promise<number | string>[] = []
    const sending = setInterval(() => results.push(call(url)), 50)
    // While one ends, the other serves; worker 0 has the admin listener, on the same port afterwards.
    for (const worker of [1, 0]) {
      process.kill(pidOf(worker), 'SIGKILL')
      expect((await gateway.line('worker started')).worker).to.equal(worker)
    }
    clearInterval(sending)
    const ends = await Promise.all(results)
    expect(ends.filter((end) => end !== 200 && end !== 'ECONNRESET')).to.deep.equal([])
    const responded = ends.filter((end) => end === 200).length
    expect(responded).to.be.greaterThan(ends.length / 2)
    expect(totalOf(await metricsOf(adminUrl), 'svc_worker_restarts_total')).to.equal(2)
    expect(await ended(gateway)).to.be.within(responded, ends.length)
  })

  it('reloads the policy in each worker by SIGHUP and by the admin API, and keeps the one in force if a new one has a command', async () => {
    await using gateway = start()
    const { url, adminUrl } = await started(gateway)
    const bySignal = () => gateway.child.kill('SIGHUP')
    const byRequest = async () => {
      const headers = { authorization, 'content-type': 'application/json' }
      const asked = await fetch(`${adminUrl}/api/policy/reload`, { method: 'POST', headers, body: '{}' })
      expect(asked.status).to.equal(200)
    }
    const rows = [
      [{ tool: 'files/other' }, bySignal, 'policy reloaded', 403],
      [{ tool: 'files/read' }, byRequest, 'policy reloaded', 200],
      [
        { tool: 'files/other', targets: '{ files: { command: node } }' },
        bySignal,
        'policy not reloaded; the old one stays in force',
        200,
      ],
    ] as const
    for (const [changes, reload, line, status] of rows) {
      write(changes)
      await reload()
      for (let i = 0; i < 2; i++) await gateway.line(line)
      expect(new Set(await calls(url, 16))).to.deep.equal(new Set([status]))
    }
    expect(totalOf(await metricsOf(adminUrl), 'svc_policy_reloads_total')).to.equal(6)
    await ended(gateway)
  })

  it('has one count of a limit, sessions at any worker, and its port to itself', async () => {
    await using gateway = start()
    const { url } = await started(gateway)
    const statuses = await calls(url, 120)
    expect(statuses.filter((status) => status === 200)).to.have.length(100)
    expect(statuses.filter((status) => status === 429)).to.have.length(20)
    const post = (body: object, session?: string) =>
      fetch(`${url}/mcp`, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          connection: 'close',
          ...(session === undefined ? {} : { 'mcp-session-id': session }),
        },
      })
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    }
    const begun = await post({ method: 'initialize', params })
    const session = begun.headers.get('mcp-session-id') ?? ''
    expect(session).to.not.equal('')
    const pings = await Promise.all(Array.from({ length: 16 }, () => post({ method: 'ping' }, session)))
    expect(new Set(pings.map(({ status }) => status))).to.deep.equal(new Set([200]))
    expect((await post({ method: 'ping' }, 'not-a-session')).status).to.equal(404)
    write({ port: Number(new URL(url).port) })
    await using second = start('--dir', join(home.path, 'second'))
    expect(await second.exit).to.equal(1)
    expect(second.stderr).to.match(/cannot listen on 127\.0\.0\.1:\d+, the port is taken/)
    expect((await post({ method: 'ping' }, session)).status).to.equal(200)
    await ended(gateway)
  })

  it('ends its workers when the supervisor is killed', async () => {
    await using gateway = start()
    const { url } = await started(gateway)
    const port = Number(new URL(url).port)
    gateway.child.kill('SIGKILL')
    await until(async () => {
      const lock = await lockPort({ host: '127.0.0.1', port }).catch(() => undefined)
      await lock?.[Symbol.asyncDispose]()
      return lock !== undefined
    }, 30_000)
  })

  it('refuses stores in memory and commands', async () => {
    const escalations = 'enforcement: { escalate_on: [egress_violation], escalations: { adapter: memory } }'
    write({ quotas: 'memory', sections: `${escalations}\n`, targets: '{ files: { command: node } }' })
    await using refused = start()
    expect(await refused.exit).to.equal(1)
    const mistakes = refused.stderr.trim().split('\n')
    const memory =
      '"memory" is that of one process, and there are 2 workers; use lmdb or redis, or --workers 1'
    const command =
      'a command runs in one process, and with --workers there are several; use --workers 1, or a server over HTTP'
    for (const [path, message] of [
      ['quotas.adapter', memory],
      ['enforcement.escalations.adapter', memory],
      ['targets.files', command],
    ])
      expect(
        mistakes.filter((line) => line.endsWith(` ${path}: ${message}`)),
        refused.stderr,
      ).to.have.length(1)
  })

  it('reports a start that fails once', async () => {
    write({ sections: 'server: { tls: { cert: file://no, key: file://no } }\n' })
    await using failed = start()
    expect(await failed.exit).to.equal(1)
    expect(
      failed.stderr
        .trim()
        .split('\n')
        .filter((line) => line.includes('server.tls.cert')),
    ).to.have.length(1)
  })

  it('uploads in one process, each byte once', async () => {
    await using bucket = await startBucket()
    const key = addKey(join(home.path, 'keys.json'), { ...owner, clientName: 'gw' })
    await using plane = await startControlPlane(bucket, join(home.path, 'keys.json'))
    const presign = `, checkpointIntervalMs: 100, presign: { apiBaseUrl: "${plane.url}", auditKey: Bearer ${key}, intervalMs: 50 }`
    write({ audit: presign })
    await using gateway = start()
    const { url } = await started(gateway)
    const inBucket = () => bucket.keys.filter((name) => name.includes('/ingest/'))
    for (let round = 1; round <= 3; round++) {
      expect(new Set(await calls(url, 4))).to.deep.equal(new Set([200]))
      await until(async () => inBucket().length >= round, 60_000)
    }
    await ended(gateway)
    const log = join(home.path, '.svc', 'audit')
    const uploaded = await Promise.all(inBucket().map((name) => bucket.read(name)))
    const stored = readdirSync(log).filter((name) => /^audit-[\d-]+\.ndjson$/.test(name))
    const kept = stored.map((name) => readFileSync(join(log, name), 'utf8')).join('')
    expect(uploaded.join('')).to.equal(kept)
    expect(new Set(bucket.statuses)).to.deep.equal(new Set([200]))
  })

  it('is refused, with what to do instead, on a version of Node that cannot share a port', async function () {
    const [major = 0] = process.versions.node.split('.').map(Number)
    if (major >= 22) this.skip()
    await using refused = new Running(['--policy', policy, '--workers', '2'])
    expect(await refused.exit).to.equal(1)
    expect(refused.stderr).to.match(/Node 22\.12 on under Linux.*svc-gateway@\.service.*load balancer/)
  })
})
