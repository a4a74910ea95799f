// A shadow policy in a whole gateway: what it counts, what it records, and that it changes and reaches nothing.
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { bind, type KeyValueStore, type QuotaAdapter, tokens } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { runCommand } from '../../support/command.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { ofEachTest } from '../../support/parts.js'
import { until } from '../../support/redis.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'
import { adminToken, ask } from '../admin/rig.js'

const bearer = { authorization: `Bearer ${adminToken}` }

const candidate = `rules:
  - name: small
    tools: [files/refund]
    require: args.amount <= 10
    then: deny
  - name: waits
    tools: [files/drop]
    then: escalate
security: { side_effects: { human_escalation: { approval_strategy: single_approver } } }
admin: { port: 0, tokenRef: env:SVC_ADMIN, roles: { reviewer: [approver] } }
entitlements:
  default_plan: free
  plans: { free: { allowlist: ['files/*'], calls_per_day: 1 } }
  tenants: {}
`

describe('a shadow policy', () => {
  let file: string

  const upstream = ofEachTest(() => startUpstream())
  const dir = ofEachTest(() => new TemporaryDir())
  beforeEach(() => {
    file = join(dir.path, 'next.yaml')
    writeFileSync(file, candidate)
  })

  const start = (more: Partial<GatewaySettings> = {}) =>
    startTestGateway({
      targets: { files: upstream.url, other: upstream.url },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: adminToken },
      policyObject: { shadow: { policy: file, max_share: 1 } },
      ...more,
    })

  const statusOf = async (gateway: TestGateway) => {
    const { adminUrl = '' } = await gateway.handle.ready()
    return (await ask(adminUrl, '/api/policy/shadow', { headers: bearer })).json
  }

  const isLoaded = (gateway: TestGateway) =>
    until(async () => (await statusOf(gateway))['error'] !== 'the shadow policy is being loaded')

  const judged = (gateway: TestGateway, count: number) =>
    until(async () => (await statusOf(gateway))['judged'] === count)

  it('counts what it decides otherwise, and changes no response', async () => {
    await using gateway = await start()
    await isLoaded(gateway)
    for (const [path, args] of [
      ['files/refund@1', { amount: 5 }],
      ['files/refund@1', { amount: 50 }],
      ['files/refund@1', { amount: 51 }],
      ['files/drop@1', {}],
      ['other/read@1', {}],
    ] as const)
      expect((await gateway.invoke(`/mcp/${path}`, args)).status).to.equal(200)
    await judged(gateway, 5)
    const status = await statusOf(gateway)
    expect(status).to.include({
      policy: file,
      policy_sha256: sha256Hex(candidate),
      judged: 5,
      of: 5,
      different: 4,
    })
    const shown = (status['differences'] as Record<string, unknown>[]).map(({ trace_id: _, ...rest }) => rest)
    const allowed = { in_force: 'allow' }
    expect(shown).to.have.deep.members([
      { ...allowed, tool: 'mcp://files/refund@1', shadow: 'deny', reason: 'rule:small', calls: 2 },
      { ...allowed, tool: 'mcp://files/drop@1', shadow: 'escalate', reason: 'rule:waits', calls: 1 },
      { ...allowed, tool: 'mcp://other/read@1', shadow: 'deny', reason: 'tool_not_in_allowlist', calls: 1 },
    ])
    const { adminUrl = '' } = await gateway.handle.ready()
    const env = { SVC_ADMIN_URL: adminUrl, SVC_ADMIN_TOKEN: adminToken }
    const { out } = await runCommand((io) => policyCommand(io, env), ['shadow'])
    expect(out).to.match(
      /^judged {5}5 of 5 calls\ndifferent {2}4 of 5\n {2}2 +allow -> deny +mcp:\/\/files\/refund@1 +rule:small/m,
    )
    const { text } = await ask(adminUrl, '/metrics', { headers: bearer })
    expect(text)
      .to.match(/^svc_shadow_different_total 4$/m)
      .and.match(/^svc_shadow_same_total 1$/m)
    // The rest is recorded when the policy ends.
    await gateway.handle.reload({})
    await until(async () => gateway.records().some(({ tool }) => tool === 'policy/shadow@1'))
    const record = gateway.records().find(({ tool }) => tool === 'policy/shadow@1')
    expect(record?.event).to.deep.equal(
      Object.fromEntries(Object.entries(status).filter(([name]) => name !== 'policy')),
    )
  })

  it('judges no call that a limit refused otherwise, and compares what the policies themselves say', async () => {
    const entitlements = {
      default_plan: 'free',
      plans: { free: { allowlist: ['files/*'], calls_per_day: 1 } },
      tenants: {},
    }
    await using gateway = await start({ entitlements })
    await isLoaded(gateway)
    const statuses = []
    for (const path of ['files/read@1', 'files/read@1', 'other/read@1'])
      statuses.push((await gateway.invoke(`/mcp/${path}`)).status)
    expect(statuses).to.deep.equal([200, 429, 403])
    await judged(gateway, 3)
    expect(await statusOf(gateway)).to.include({ judged: 3, of: 3, different: 0 })
  })

  it('uses no store, no runtime, no broker and no webhook: spies count zero', async () => {
    let requests = 0
    const outside = createServer((_, response) => {
      requests++
      response.end('{}')
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => outside.once('listening', resolve))
    const { port } = outside.address() as { port: number }
    const url = `http://127.0.0.1:${port}`
    writeFileSync(
      file,
      `${candidate}runtime: { enforcement: { mode: remote, remote: { endpoint: '${url}/judge' } } }
notices: [{ url: '${url}/hook' }]
dedupe: { enabled: true }
brokers: { files: { type: static, key_refs: [env:KEY], inject: { header: x-key, format: raw } } }
`,
    )
    let operations = 0
    const spy = <T extends object>(): T =>
      new Proxy({} as T, {
        get: (_, name) =>
          ['then', 'connect', 'ready', 'warning', 'close', 'refundDaily'].includes(String(name))
            ? undefined
            : () => {
                operations++
                return Promise.resolve({ tokens: 1, count: 1, resetAt: 0 })
              },
      })
    try {
      await using gateway = await start({
        env: { SVC_ADMIN: adminToken, KEY: 'k' },
        configure: (container) => {
          bind(container, tokens.QuotaAdapter, { useValue: spy<QuotaAdapter>() })
          bind(container, tokens.DedupeStore, { useValue: spy<KeyValueStore>() })
        },
        quotas: {},
      })
      await isLoaded(gateway)
      await gateway.invoke('/mcp/files/drop@1', {}, { 'idempotency-key': 'k1' })
      // What its runtime would decide is not known.
      await until(async () => (await statusOf(gateway))['unknown'] === 1)
      expect({ requests, operations }).to.deep.equal({ requests: 0, operations: 0 })
    } finally {
      outside.close()
    }
  })

  for (const [what, text, message] of [
    ['that is missing', undefined, 'cannot be read'],
    ['with a mistake', 'quota: {}\n', 'unknown section'],
    ['whose YAML is broken', 'rules: [', 'next.yaml'],
  ] as const)
    it(`${what} is reported, and touches nothing`, async () => {
      if (text === undefined) file = join(dir.path, 'none.yaml')
      else writeFileSync(file, text)
      await using gateway = await start()
      await isLoaded(gateway)
      expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
      expect((await statusOf(gateway))['error']).to.contain(message)
      expect(gateway.log.lines.map(({ message }) => message)).to.include('the shadow policy is not used')
      await gateway.handle.reload({ shadow: { policy: file }, vars: { a: 1 } })
      expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    })
})
