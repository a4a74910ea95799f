// Callers, and reloads, choose names without end; the series of metrics must not follow them.
import { request } from 'node:http'
import { settle } from '@svc/core/pipeline'
import { expect } from 'chai'
import { Registry } from 'prom-client'
import { CallMetrics } from 'svc-sdk/internal/telemetry/metrics/gateway-state'
import { StageMetrics } from 'svc-sdk/internal/telemetry/metrics/stage-metrics'
import { FakeClock } from 'svc-sdk/testing'
import { controlOf, makeCall } from '../../../support/call.js'
import { TestIssuer } from '../../../support/issuer.js'
import { type Family, parseMetrics, sampled } from '../../../support/prometheus.js'
import { startUpstream } from '../../../support/upstream.js'
import { startAdminRig } from '../../admin/rig.js'

const outcome = { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() } as const
const settlement = { outcome, status: 200, sent: 'yes', bytes: 0, digest: null, error: null } as const

/** Names and labels of all series. */
function seriesOf(families: ReadonlyMap<string, Family>): string[] {
  const samples = [...families.values()].flatMap((family) => family.samples)
  return samples.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`).sort()
}

describe('labels of metrics', () => {
  it('have no value that a caller chooses, whatever it names', async () => {
    await using issuer = await TestIssuer.start()
    await using upstream = await startUpstream((_call, response) => {
      response.setHeader('content-type', 'application/json')
      response.end('{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
    })
    await using rig = await startAdminRig({
      targets: { billing: upstream.url },
      authn: { oidc: issuer.oidc },
      federation: { groups: { all: ['billing'] } },
    })
    const send = (method: string, path: string, headers: Record<string, string>, body = '') =>
      new Promise<void>((resolve, reject) => {
        const sending = request(rig.gateway.url, { method, path, headers, agent: false }, (response) => {
          response.resume().once('close', () => resolve())
        })
        sending.once('error', reject).end(body)
      })
    const round = async (from: number): Promise<string[]> => {
      for (let n = from; n < from + 8; n++) {
        const evil = `evil-${n}`
        const token = await issuer.sign({ org: evil, sub: evil, azp: evil })
        const headers = {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'x-agent-ref': evil,
          'x-node-id': evil,
          'idempotency-key': evil,
          'mcp-session-id': evil,
          traceparent: `00-${String(n).padStart(32, 'e')}-${String(n).padStart(16, 'e')}-01`,
        }
        const rpc = (method: string, params: object) =>
          JSON.stringify({ jsonrpc: '2.0', id: evil, method, params })
        await send('POST', `/mcp/billing/${evil}@${n}`, headers, '{}')
        await send('POST', `/mcp/${evil}/${evil}@${n}`, headers, '{}')
        await send(
          'POST',
          '/a2a/invoke',
          headers,
          JSON.stringify({ to: evil, toolAtVersion: `${evil}@1`, args: {} }),
        )
        for (const path of ['/mcp/billing', '/mcp/all', '/mcp', `/mcp/${evil}`]) {
          await send('POST', path, headers, rpc('tools/call', { name: evil, arguments: {} }))
          await send('POST', path, headers, rpc('resources/read', { uri: `${evil}://x` }))
          await send('POST', path, headers, rpc('prompts/get', { name: evil }))
          await send('POST', path, headers, rpc(evil, {}))
        }
        await send('PROPFIND', `/${evil}`, headers)
        await send('POST', '/mcp/billing', { ...headers, host: `${evil}.example` }, '{}')
        await send('POST', '/mcp/billing', { ...headers, authorization: `Bearer ${evil}` }, '{}')
      }
      const { text } = await rig.admin('/metrics')
      expect(text).not.to.match(/evil/i)
      // A stage has series once a call has waited in it, which a busy machine decides; its name is that of the policy.
      return seriesOf(parseMetrics(text)).filter(
        (series) => !/^(nodejs|process|svc_stage_wait)_/.test(series),
      )
    }
    const first = await round(0)
    expect(await round(100)).to.deep.equal(first)
    expect(first.length).to.be.lessThan(400)
  })

  it('have at most 1,000 servers and 200 stages, however many policies brought them', async () => {
    const registry = new Registry()
    const calls = new CallMetrics(registry, new FakeClock())
    const stages = new StageMetrics(registry)
    for (let n = 0; n < 1_500; n++) {
      const call = makeCall({ server: `server-${n}` })
      calls.begin(call, { has: () => true }, () => false)
      await controlOf(call)[settle](settlement)
      stages.waited(call, `stage-${n}`, 0, 1)
    }
    const families = parseMetrics(await registry.metrics())
    const values = (name: string, label: string) =>
      new Set((families.get(name)?.samples ?? []).map(({ labels }) => labels[label]))
    expect(values('svc_calls_total', 'server')).to.have.property('size', 1_001)
    expect(values('svc_call_duration_seconds', 'server')).to.have.property('size', 1_001)
    expect(values('svc_stage_wait_seconds', 'stage')).to.have.property('size', 201)
    expect(sampled(families, 'svc_calls_total', { server: 'other' })).to.equal(500)
    expect(sampled(families, 'svc_stage_wait_seconds_count', { stage: 'other' })).to.equal(1_300)
  })

  it('keep counting for the stages that they have once there are too many', async () => {
    const registry = new Registry()
    const stages = new StageMetrics(registry)
    for (let n = 0; n < 300; n++) stages.waited(makeCall(), `stage-${n}`, 0, 1)
    stages.waited(makeCall(), 'stage-0', 0, 1)
    const families = parseMetrics(await registry.metrics())
    const count = (stage: string) => sampled(families, 'svc_stage_wait_seconds_count', { stage })
    expect([count('stage-0'), count('other')]).to.deep.equal([2, 100])
  })
})
