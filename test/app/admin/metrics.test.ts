import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bind, definePlugin, type Meter, resolve, tokens } from '@svc/core'
import { expect } from 'chai'
import { lineBudget, requestBudget } from 'svc-sdk/internal/budget/process-budgets'
import { MetricCounters } from 'svc-sdk/internal/gateway/defaults'
import { GatewayMetrics } from 'svc-sdk/internal/telemetry/metrics/gateway-metrics'
import { serverMetrics } from 'svc-sdk/internal/telemetry/metrics/metric-table'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { keepingLogger } from '../../support/logger.js'
import { stageMetrics } from '../../support/metric-reference.js'
import { type Family, parseMetrics, sampled } from '../../support/prometheus.js'
import { startUpstream } from '../../support/upstream.js'
import { type AdminRig, startAdminRig } from './rig.js'

async function metrics(rig: AdminRig): Promise<Map<string, Family>> {
  return parseMetrics((await rig.admin('/metrics')).text)
}

describe('the metrics', () => {
  it('are in the Prometheus text format', async () => {
    await using rig = await startAdminRig()
    const { headers, text } = await rig.admin('/metrics')
    expect(headers.get('content-type')).to.equal('text/plain; version=0.0.4; charset=utf-8')
    const families = parseMetrics(text)
    for (const { name, type, help } of families.values()) {
      expect(help.length).to.be.greaterThan(5)
      if (name.startsWith('svc_')) expect(name.endsWith('_total')).to.equal(type === 'counter')
    }
  })

  it('include those of the active stages from the start, and of the process', async () => {
    await using rig = await startAdminRig()
    const families = await metrics(rig)
    const running = stageMetrics.filter(({ name }) => /^svc_(audit|quota)_/.test(name))
    expect(running).to.have.length.greaterThan(10)
    for (const { name, kind } of running) {
      expect(families.get(name)?.type, name).to.equal(kind)
      if (kind === 'counter') expect(sampled(families, name), name).to.equal(0)
    }
    expect(families.has('svc_broker_exchanges_total')).to.equal(false)
    expect(sampled(families, 'process_cpu_user_seconds_total')).to.be.greaterThan(0)
    expect(sampled(families, 'process_resident_memory_bytes')).to.be.greaterThan(1e6)
    expect(families.has('nodejs_eventloop_lag_p99_seconds')).to.equal(true)
    expect(sampled(families, 'svc_ready')).to.equal(1)
  })

  it('count calls by server, decision and code', async () => {
    await using upstream = await startUpstream(({ path }, response) => {
      response.statusCode = path.includes('broken') ? 500 : 200
      response.end('{}')
    })
    await using rig = await startAdminRig({
      targets: { billing: upstream.url },
      entitlements: {
        default_plan: 'all',
        plans: { all: {} },
        tenants: { acme: { plan: 'all', allowlist: ['read', 'broken'] } },
      },
    })
    const invoke = (path: string) => rig.gateway.invoke(path)
    await invoke('/mcp/billing/read@1')
    await invoke('/mcp/billing/read@1')
    await invoke('/mcp/billing/broken@1')
    await invoke('/mcp/billing/refund@1')
    await rig.gateway.invoke('/mcp/billing/read@1', '{')
    const families = await metrics(rig)
    const calls = (decision: string, code: string) =>
      sampled(families, 'svc_calls_total', { server: 'billing', decision, code })
    expect(calls('allow', 'OK')).to.equal(2)
    expect(calls('allow', 'UPSTREAM')).to.equal(1)
    expect(calls('deny', 'TOOL_NOT_ALLOWED')).to.equal(1)
    expect(calls('deny', 'BAD_REQUEST')).to.equal(1)
    expect(sampled(families, 'svc_call_duration_seconds_count', { server: 'billing' })).to.equal(5)
    expect(sampled(families, 'svc_call_duration_seconds_sum', { server: 'billing' })).to.be.within(0.0001, 60)
    expect(sampled(families, 'svc_calls_in_flight')).to.equal(0)
  })

  it('match the records', async () => {
    await using upstream = await startUpstream()
    await using rig = await startAdminRig({
      targets: { billing: upstream.url },
      authn: { allowUnauthenticated: false },
    })
    for (let n = 0; n < 3; n++) await rig.gateway.invoke('/mcp/billing/read@1')
    const families = await metrics(rig)
    const deny = { server: 'billing', decision: 'deny', code: 'UNAUTHENTICATED' }
    expect(sampled(families, 'svc_calls_total', deny)).to.equal(3)
    expect(rig.gateway.records().map(({ policy, error }) => `${policy.decision} ${error}`)).to.deep.equal(
      Array(3).fill('deny UNAUTHENTICATED'),
    )
  })

  it('show the budgets of the process, the use of the largest tenant, and the waits', async () => {
    await using rig = await startAdminRig()
    const user = { owner: 'printing', server: 'printing' }
    const before = (await metrics(rig)).get('svc_budget_limit')?.samples.map(({ labels }) => labels['budget'])
    expect(before).to.include.members(['lines', 'requests', 'messages'])
    await lineBudget.spend(user, 65_536, 1)
    await lineBudget.spend(user, 65_536, 1)
    const release = await requestBudget.take({ owner: 'acme', member: 'ada' }, 10)
    const { text } = await rig.admin('/metrics')
    release()
    const families = parseMetrics(text)
    expect(sampled(families, 'svc_budget_shortages_total', { budget: 'lines', server: 'printing' })).to.equal(
      1,
    )
    expect(sampled(families, 'svc_budget_used', { budget: 'requests', tenants: 'largest' })).to.equal(10)
    expect(text).not.to.match(/acme|ada/)
  })

  it('contain no identity of a caller', async () => {
    await using issuer = await TestIssuer.start()
    await using upstream = await startUpstream()
    await using rig = await startAdminRig({
      targets: { billing: upstream.url },
      authn: { oidc: issuer.oidc },
    })
    const token = await issuer.sign()
    const { status } = await rig.gateway.invoke(
      '/mcp/billing/read@1',
      { secret: 'of-the-arguments' },
      { authorization: `Bearer ${token}` },
    )
    expect(status).to.equal(200)
    const { text } = await rig.admin('/metrics')
    for (const word of ['ada', 'acme', token, 'of-the-arguments', issuer.issuer]) {
      expect(text).not.to.contain(word)
    }
  })

  it('include those of a custom stage', async () => {
    let meter: Meter | undefined
    const counting = definePlugin({
      name: 'counting',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}).prefault({}),
      create: (_config, { container }) => {
        meter = resolve(container, tokens.Meter)
        return { handle: (_call, next) => next() }
      },
    })
    await using rig = await startAdminRig({ plugins: [counting] })
    meter?.count('my_things_total')
    meter?.count('my_things_total', 2)
    meter?.gauge?.('my_level', 7)
    meter?.observe?.('my_seconds', 0.3)
    meter?.watch?.('my_queue', () => 4)
    meter?.watch?.('my_broken_queue', () => {
      throw new Error('it has no length')
    })
    meter?.count('svc_audit_append_failures_total')
    const families = await metrics(rig)
    expect(sampled(families, 'my_things_total')).to.equal(3)
    expect(sampled(families, 'my_level')).to.equal(7)
    expect(sampled(families, 'my_seconds_bucket', { le: '0.25' })).to.equal(0)
    expect(sampled(families, 'my_seconds_bucket', { le: '0.5' })).to.equal(1)
    expect(sampled(families, 'my_queue')).to.equal(4)
    expect(rig.gateway.log.lines.map(({ fields }) => fields)).to.deep.include({
      metric: 'my_broken_queue',
      reason: 'it has no length',
    })
    expect(sampled(families, 'svc_audit_append_failures_total')).to.equal(1)
  })

  it('do not use a meter that the application bound', async () => {
    const counted: string[] = []
    const meter: Meter = { count: (name) => void counted.push(name) }
    await using rig = await startAdminRig({
      configure: (container) => bind(container, tokens.Meter, { useValue: meter }),
    })
    expect(resolve(rig.gateway.handle.container, tokens.Meter)).to.equal(meter)
    expect(sampled(await metrics(rig), 'svc_ready')).to.equal(1)
  })

  it('are counted without a listener', async () => {
    await using gateway = await startTestGateway({ targets: { billing: 'http://127.0.0.1:1' } })
    expect(resolve(gateway.handle.container, tokens.Meter)).to.be.instanceOf(MetricCounters)
  })

  it('count successful and refused reloads', async () => {
    await using rig = await startAdminRig()
    await rig.gateway.handle.reload({})
    await rig.gateway.handle.reload({ server: 7 }).catch(() => undefined)
    const families = await metrics(rig)
    expect(sampled(families, 'svc_policy_reloads_total', { result: 'success' })).to.equal(1)
    expect(sampled(families, 'svc_policy_reloads_total', { result: 'refused' })).to.equal(1)
  })
})

describe('the meter', () => {
  it('does not throw for an invalid name, and warns once', async () => {
    const log = keepingLogger()
    const metrics = new GatewayMetrics(log)
    metrics.gauge('a_level', 1)
    metrics.count('a_total')
    const taken = ['a_level', 'svc_call_duration_seconds', 'svc_ready', 'process_cpu_seconds_total']
    const unfit = ['', '7_up', 'with space', 'ümlaut', 'new\nline', ...taken]
    for (const name of [...unfit, ...unfit]) metrics.count(name)
    metrics.gauge('a_total', 1)
    metrics.count('fine_total', -1)
    metrics.count('fine_total', Number.NaN)
    metrics.gauge('level', Number.NaN)
    expect(log.lines.map(({ level }) => level)).to.deep.equal(Array(10).fill('warn'))
    const families = parseMetrics(await metrics.text())
    expect(sampled(families, 'fine_total')).to.equal(0)
  })

  it('accepts at most 200 names', async () => {
    const log = keepingLogger()
    const metrics = new GatewayMetrics(log)
    for (let n = 0; n < 1000; n++) metrics.count(`caller_${n}_total`)
    const families = parseMetrics(await metrics.text())
    expect([...families.keys()].filter((name) => !/^(process|nodejs|svc)_/.test(name))).to.have.length(200)
    expect(log.lines.length).to.be.within(1, 200)
  })

  it('shows metrics with 0 from the start, and a gauge for which that would be a statement once it has a value', async () => {
    const metrics = new GatewayMetrics(keepingLogger())
    metrics.declare({
      a_total: { kind: 'counter', help: 'A.' },
      b: { kind: 'gauge', help: 'B.', isEmptyAtFirst: true },
      c: { kind: 'gauge', help: 'C.' },
    })
    expect(await metrics.text())
      .to.match(/^a_total 0$/m)
      .and.match(/^c 0$/m)
      .and.not.match(/^b /m)
    metrics.gauge('b', 0)
    expect(await metrics.text()).to.match(/^b 0$/m)
  })

  it('keeps the first description of a metric through reloads', async () => {
    const metrics = new GatewayMetrics(keepingLogger())
    metrics.declare({ a_total: { kind: 'counter', help: 'First.' } })
    metrics.count('a_total')
    metrics.declare({ a_total: { kind: 'gauge', help: 'Second.' }, 'b c': { kind: 'gauge', help: 'Unfit.' } })
    const families = parseMetrics(await metrics.text())
    expect(families.get('a_total')).to.include({ type: 'counter', help: 'First.' })
    expect(sampled(families, 'a_total')).to.equal(1)
  })
})

describe('the HTTP server', () => {
  it('declares every metric that it counts', () => {
    const server = fileURLToPath(new URL('../../../../app/http/server.ts', import.meta.url))
    const counted = [...readFileSync(server, 'utf8').matchAll(/\.count\('(\w+)'/g)].map(
      ([, metric]) => metric,
    )
    expect([...new Set(counted)].sort()).to.deep.equal(Object.keys(serverMetrics).sort())
  })
})

describe('the plugins that ship', () => {
  const root = fileURLToPath(new URL('../../../..', import.meta.url))
  it('declare every metric that they count, and no other', () => {
    const sources = readdirSync(join(root, 'plugins'), { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && !/(^|\/)(dist|node_modules)\//.test(file),
    )
    const counted = sources.flatMap((file) => {
      const text = readFileSync(join(root, 'plugins', file), 'utf8')
      const named = [...text.matchAll(/\.(?:count|gauge|watch|observe)(?:\?\.)?\(\s*'(\w+)'/g)]
      // A store counts under its own name.
      const stores = [...text.matchAll(/\bname: '(\w+) store'/g)].map(([, store]) => `svc_${store}_store`)
      return [
        ...named.map(([, figure]) => figure),
        ...stores.flatMap((store) => [`${store}_failures_total`, `${store}_duration_seconds`]),
      ]
    })
    expect([...new Set(counted)].sort()).to.deep.equal(stageMetrics.map(({ name }) => name).sort())
  })
})
