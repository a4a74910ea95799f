// The container resolves what code binds and what the policy in force configures.
import {
  type Appender,
  bind,
  type DecisionEvaluator,
  definePlugin,
  type KeyValueStore,
  type QuotaAdapter,
  resolve,
  type Signer,
  tokens,
} from '@svc/core'
import { claimStore, MemoryKeyValueStore } from '@svc/core/store'
import { MemoryQuotaAdapter, quotaAdapters } from '@svc/plugin-quotas'
import { expect } from 'chai'
import { type GatewaySettings, PolicyError, startGatewayServer } from 'svc-sdk'
import { z } from 'zod'
import { recordingTo, startTestGateway } from '../../support/gateway.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'

const escalating = {
  security: { side_effects: { approve_high_risk: true } },
  enforcement: { escalate_on: ['tool_not_in_allowlist'], escalations: { adapter: 'memory' as const } },
  admin: { port: 0, tokenRef: 'env:ADMIN_TOKEN' },
  env: { ADMIN_TOKEN: 'a-token-of-the-test-that-is-long-enough' },
}

const evaluator: DecisionEvaluator = { evaluate: async () => ({ action: 'allow' }) }

describe('the container of a gateway', () => {
  it('gives a custom stage the running log, signer and stores', async () => {
    await using upstream = await startUpstream()
    const used: unknown[] = []
    const curious = definePlugin({
      name: 'curious',
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}).prefault({}),
      create(_config, { container }) {
        const message = 'SvcAppender is not open: it can be used once the pipeline has started'
        expect(() => resolve(container, tokens.SvcAppender)).to.throw(message)
        return {
          async handle(_call, next) {
            const appender = resolve(container, tokens.SvcAppender)
            const signer = resolve(container, tokens.Signer)
            const quotas = resolve(container, tokens.QuotaAdapter)
            const keys = resolve(container, claimStore)
            const data = Buffer.from('data')
            used.push(signer.verify(data, signer.sign(data)), appender.status?.().writable)
            used.push((await quotas.incrDaily('acme', 'curious', 5)).count)
            const kept = { tenant: 'acme', maxKeys: 16, leaseMs: 1000, ttlMs: 1000 }
            const claim = { key: 'k', fingerprint: 'f', owner: 't', ...kept }
            used.push((await keys.claim(claim)).state)
            return next()
          },
        }
      },
    })
    await using gateway = await startTestGateway({
      ...escalating,
      targets: { files: upstream.url },
      dedupe: {},
      plugins: [curious],
    })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect(used).to.deep.equal([true, true, 1, 'claimed'])
  })

  it('resolves the running parts from outside, and those of the new policy after a reload', async () => {
    const second = new MemoryQuotaAdapter()
    await using gateway = await startTestGateway({
      targets: {},
      configure: (container) =>
        bind(container, quotaAdapters, { useValue: new Map([['second', () => second]]) }),
    })
    const { container } = gateway.handle
    const appender: Appender = resolve(container, tokens.SvcAppender)
    const signer: Signer = resolve(container, tokens.Signer)
    expect(appender.status?.().writable).to.equal(true)
    expect(signer.keyId).to.match(/^ed25519:[0-9a-f]{64}$/)
    expect((await resolve(container, tokens.QuotaAdapter).incrDaily('acme', 'tool', 9)).count).to.equal(1)
    await gateway.handle.reload({ quotas: { adapter: 'second' } })
    expect((await resolve(container, tokens.QuotaAdapter).incrDaily('acme', 'tool', 9)).count).to.equal(1)
    expect((await second.incrDaily('acme', 'tool', 9)).count).to.equal(2)
  })

  it('resolves the parts that code binds, and the gateway uses them', async () => {
    await using upstream = await startUpstream()
    const quotas = new MemoryQuotaAdapter()
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      quotas: {},
      entitlements: {
        default_plan: 'free',
        plans: { free: { allowlist: ['*'], calls_per_day: 5 } },
        tenants: {},
      },
      configure: (container) => bind<QuotaAdapter>(container, tokens.QuotaAdapter, { useValue: quotas }),
    })
    expect(resolve(gateway.handle.container, tokens.QuotaAdapter)).to.equal(quotas)
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.headers.get('x-quota-remaining')).to.equal('4')
  })

  it('keeps an adapter that code passes when a policy has a section of its own for the rest', async () => {
    const adapter = new MemoryQuotaAdapter()
    await using gateway = await startTestGateway({
      targets: {},
      quotas: { adapter },
      policyObject: { quotas: { failure_mode: 'open' } },
    })
    expect(resolve(gateway.handle.container, tokens.QuotaAdapter)).to.equal(adapter)
  })

  const bound = (token: symbol, value: unknown): GatewaySettings => ({
    configure: (container) => container.register(token, { useValue: value }),
  })
  const conflicts: [what: string, key: string, token: string, options: GatewaySettings][] = [
    [
      'an adapter',
      'quotas.adapter',
      'QuotaAdapter',
      { ...bound(tokens.QuotaAdapter, new MemoryQuotaAdapter()), quotas: { adapter: 'lmdb' } },
    ],
    [
      'a second adapter',
      'quotas.adapter',
      'QuotaAdapter',
      {
        ...bound(tokens.QuotaAdapter, new MemoryQuotaAdapter()),
        quotas: { adapter: new MemoryQuotaAdapter() },
      },
    ],
    [
      'another adapter than code passes',
      'quotas.adapter',
      'QuotaAdapter',
      { quotas: { adapter: new MemoryQuotaAdapter() }, policyObject: { quotas: { adapter: 'memory' } } },
    ],
    [
      'a store of idempotency keys',
      'dedupe.redisUrl',
      'DedupeStore',
      {
        ...bound(tokens.DedupeStore, new MemoryKeyValueStore()),
        dedupe: { redisUrl: 'redis://127.0.0.1:1' },
      },
    ],
    [
      'a store of escalations',
      'enforcement.escalations.adapter',
      'EscalationStore',
      { ...bound(tokens.EscalationStore, {} satisfies Partial<KeyValueStore>), ...escalating },
    ],
    [
      'local decisions',
      'runtime.enforcement.mode',
      'DecisionEvaluator',
      { ...bound(tokens.DecisionEvaluator, evaluator), runtime: { enforcement: { mode: 'local' } } },
    ],
    [
      'a runtime',
      'runtime.enforcement.remote.endpoint',
      'DecisionEvaluator',
      {
        ...bound(tokens.DecisionEvaluator, evaluator),
        runtime: { enforcement: { mode: 'remote', remote: { endpoint: 'https://judge.example.com/' } } },
      },
    ],
    [
      'a signing key',
      'audit.signer.keyRef',
      'Signer',
      {
        ...bound(tokens.Signer, {}),
        audit: { gatewayName: 'gw', gatewayVersion: '1', signer: { keyRef: 'file://key' } },
      },
    ],
    [
      'a signing key for a log that code passes',
      'audit.signer',
      'SvcAppender',
      {
        ...recordingTo({ append: async () => undefined }),
        audit: { gatewayName: 'gw', gatewayVersion: '1', signer: { keyRef: 'file://key' } },
      },
    ],
  ]
  for (const [what, key, token, options] of conflicts) {
    it(`refuses a policy that chooses ${what} if code binds one, and names both`, () => {
      const base = {
        port: 0,
        tenant: 'acme',
        targets: {},
        audit: { gatewayName: 'gw', gatewayVersion: '1' },
        quotas: { adapter: 'memory' },
        entitlements: 'open',
      } as const
      let error: unknown
      try {
        startGatewayServer({ ...base, ...options })
      } catch (thrown) {
        error = thrown
      }
      expect(error).to.be.instanceOf(PolicyError)
      expect(String(error)).to.contain(
        `${key}: chooses an implementation, and code binds its own ${token}; remove one of the two`,
      )
    })
  }

  it('resolves the evaluator of the runtime that the policy names', async () => {
    await using gateway = await startTestGateway({
      targets: {},
      runtime: {
        enforcement: { mode: 'remote', remote: { endpoint: 'http://127.0.0.1:9/', maxRetries: 0 } },
      },
    })
    const remote = resolve(gateway.handle.container, tokens.DecisionEvaluator)
    const asked = {
      requestId: 'r',
      tenant: 'acme',
      server: 'files',
      tool: 'read@1',
      mode: 'enforce' as const,
      denyOn: [],
      reasons: [],
      riskTags: [],
      attributes: {},
    }
    const { message } = await rejectionOf(remote.evaluate(asked, new AbortController().signal))
    expect(message).to.equal('the runtime cannot be reached (ECONNREFUSED)')
  })

  it('uses an evaluator that code binds, without a section of the policy', async () => {
    await using gateway = await startTestGateway({
      targets: {},
      runtime: {},
      configure: (container) => bind(container, tokens.DecisionEvaluator, { useValue: evaluator }),
    })
    expect(resolve(gateway.handle.container, tokens.DecisionEvaluator)).to.equal(evaluator)
  })
})
