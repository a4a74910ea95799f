// Two gateways of one Redis whose clocks are more than a day apart: what they share follows the clock of Redis, what is a
// gateway's own follows its clock, as docs/operations/several-hosts.md says.
import { bind, type Clock, tokens } from '@svc/core'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'
import { startUpstream } from '../../support/upstream.js'
import { adminToken, ask } from '../admin/rig.js'

const AHEAD_MS = 26 * 3_600_000

describe('a gateway whose clock is 26 hours ahead of that of another', () => {
  const redis = ofEachTest(() => startRedis())
  const upstream = ofEachTest(() => startUpstream())

  /** The one with the right clock first. */
  async function withBoth(settings: Partial<GatewaySettings>, use: (both: TestGateway[]) => Promise<void>) {
    const start = (aheadMs: number) =>
      startTestGateway({
        targets: { files: upstream.url },
        ...settings,
        configure(container) {
          const clock: Clock = { now: () => Date.now() + aheadMs, monotonic: () => performance.now() }
          bind(container, tokens.Clock, { useValue: clock })
        },
      })
    await using right = await start(0)
    await using wrong = await start(AHEAD_MS)
    await use([right, wrong])
  }

  it('shares limits and idempotency keys with it, exactly', async () => {
    const settings: Partial<GatewaySettings> = {
      entitlements: { default_plan: 'p', plans: { p: { allowlist: ['*'], calls_per_day: 5 } }, tenants: {} },
      quotas: { adapter: 'redis', redisUrl: redis.url },
      dedupe: { redisUrl: redis.url },
    }
    await withBoth(settings, async (both) => {
      for (const gateway of [...both, ...both]) {
        const response = await gateway.invoke('/mcp/files/pay@1', {}, { 'idempotency-key': 'order-1' })
        expect(response.status).to.equal(200)
      }
      expect(upstream.calls, 'calls with one key').to.have.length(1)
      const statuses = []
      for (const gateway of [...both, ...both, ...both])
        statuses.push((await gateway.invoke('/mcp/files/read@1')).status)
      expect(statuses).to.deep.equal([200, 200, 200, 200, 200, 429])
    })
  })

  it('says so in its log, in /readyz and in its metrics; the other does not', async () => {
    const settings: Partial<GatewaySettings> = {
      quotas: { adapter: 'redis', redisUrl: redis.url },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: adminToken },
    }
    const warning = 'the clock of this machine is 93600 s ahead of that of Redis'
    await withBoth(settings, async (both) => {
      const seen = []
      for (const { url, handle, log } of both) {
        const { adminUrl = '' } = await handle.ready()
        const { text } = await ask(adminUrl, '/metrics', {
          headers: { authorization: `Bearer ${adminToken}` },
        })
        const skew = /^svc_store_clock_skew_seconds (.*)$/m.exec(text)?.[1]
        const { warnings = [] } = (await (await fetch(`${url}/readyz`)).json()) as { warnings?: string[] }
        const lines = log.lines.filter(({ message }) => message === warning)
        seen.push([warnings, lines.length, Math.round(Number(skew))])
      }
      expect(seen).to.deep.equal([
        [[], 0, 0],
        [[warning], 1, 93_600],
      ])
    })
  })

  it('takes an approval that was given at the other, and the other one that was given there', async () => {
    const settings: Partial<GatewaySettings> = {
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: adminToken },
      security: {
        egress_allowlist: ['good.example'],
        side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'single_approver' } },
      },
      enforcement: {
        escalate_on: ['egress_violation'],
        escalations: { adapter: 'redis', redisUrl: redis.url },
      },
    }
    await withBoth(settings, async ([right, wrong]) => {
      const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
      const body = JSON.stringify({ vote: 'approve' })
      for (const [caller, reviewer] of [
        [right!, wrong!],
        [wrong!, right!],
      ] as const) {
        const call = (more = {}) =>
          caller.invoke('/mcp/files/fetch@1', { url: 'https://evil.example/' }, more)
        const { escalation_id: id } = (await (await call()).json()) as { escalation_id: string }
        const { adminUrl = '' } = await reviewer.handle.ready()
        const vote = await ask(adminUrl, `/api/escalations/${id}/votes`, { method: 'POST', headers, body })
        expect(vote.status, vote.text).to.equal(200)
        expect((await call({ 'x-escalation-id': id })).status).to.equal(200)
      }
    })
  })

  it('refuses valid tokens, and writes records of another day', async () => {
    await using issuer = await TestIssuer.start()
    await withBoth({ authn: { oidc: issuer.oidc } }, async (both) => {
      const authorization = `Bearer ${await issuer.sign({ sub: 'ada', tenant: 'acme' })}`
      const statuses = []
      for (const gateway of both)
        statuses.push((await gateway.invoke('/mcp/files/read@1', {}, { authorization })).status)
      expect(statuses).to.deep.equal([200, 401])
      const [right, wrong] = both.map((gateway) => Date.parse(gateway.records()[0]!.ts))
      expect(wrong! - right!).to.be.within(AHEAD_MS - 60_000, AHEAD_MS + 60_000)
    })
  })
})
