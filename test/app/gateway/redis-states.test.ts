// Redis responds, and refuses what the stores ask: calls go on or are refused as the policy says, and operators see why.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { ofEachTest } from '../../support/parts.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { startUpstream } from '../../support/upstream.js'

interface State {
  readonly name: string
  begin(redis: RedisServer): Promise<unknown>
  end(redis: RedisServer): Promise<unknown>
  /** The reason in logs and on `/readyz`. */
  readonly reason: RegExp
}

const states: readonly State[] = [
  {
    name: 'read-only, as a replica after a failover',
    begin: (redis) => redis.send('REPLICAOF', '127.0.0.1', '1'),
    end: (redis) => redis.send('REPLICAOF', 'NO', 'ONE'),
    reason: /READONLY|Connection is closed|not connected/,
  },
  {
    name: 'full, with maxmemory and noeviction',
    begin: (redis) => redis.send('CONFIG', 'SET', 'maxmemory', '1'),
    end: (redis) => redis.send('CONFIG', 'SET', 'maxmemory', '0'),
    reason: /OOM/,
  },
  {
    name: 'without the replicas that min-replicas-to-write asks for',
    begin: (redis) => redis.send('CONFIG', 'SET', 'min-replicas-to-write', '1'),
    end: (redis) => redis.send('CONFIG', 'SET', 'min-replicas-to-write', '0'),
    reason: /NOREPLICAS/,
  },
  {
    name: 'closed to this user for scripts',
    begin: (redis) => redis.send('ACL', 'SETUSER', 'default', '-evalsha'),
    end: (redis) => redis.send('ACL', 'SETUSER', 'default', '+evalsha'),
    reason: /NOPERM/,
  },
]

interface Use {
  readonly name: string
  readonly settings: (redisUrl: string) => Partial<GatewaySettings>
  readonly args?: object
  readonly headers?: Record<string, string>
  /** While Redis refuses. */
  readonly status: number
  /** Default: 200. */
  readonly afterwards?: number
  readonly effect: RegExp
}

const limits = {
  default_plan: 'free',
  plans: { free: { allowlist: ['*'], calls_per_day: 100 } },
  tenants: {},
}
const quotas = (failure_mode: 'closed' | 'open' | 'local') => (redisUrl: string) => ({
  entitlements: limits,
  quotas: { adapter: 'redis', redisUrl, failure_mode },
})

const uses: readonly Use[] = [
  { name: 'quotas, closed', settings: quotas('closed'), status: 503, effect: /limited calls are refused/ },
  { name: 'quotas, open', settings: quotas('open'), status: 200, effect: /let through uncounted/ },
  { name: 'quotas, local', settings: quotas('local'), status: 200, effect: /counted in this process alone/ },
  {
    name: 'dedupe',
    settings: (redisUrl) => ({ dedupe: { enabled: true, redisUrl } }),
    headers: { 'idempotency-key': 'order-1' },
    status: 503,
    effect: /calls with an idempotency key are refused/,
  },
  {
    name: 'approvals',
    settings: (redisUrl) => ({
      security: { egress_allowlist: ['good.example'], side_effects: { approve_high_risk: true } },
      enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'redis', redisUrl } },
    }),
    args: { url: 'https://evil.example/' },
    status: 503,
    afterwards: 403,
    effect: /calls that escalate are refused/,
  },
]

const withErrors = (_: string, value: unknown) => (value instanceof Error ? value.message : value)

describe('a gateway whose Redis is', () => {
  const upstream = ofEachTest(() => startUpstream())

  const readiness = async ({ url }: TestGateway) =>
    JSON.stringify(await (await fetch(`${url}/readyz`)).json())
  const said = ({ log }: TestGateway) =>
    log.lines.map(({ message, fields }) => `${message} ${JSON.stringify(fields, withErrors)}`).join('\n')
  const metrics = async ({ handle }: TestGateway) =>
    (await fetch(`${(await handle.ready()).adminUrl}/metrics`)).text()
  const failures = /svc_(?:quota|dedupe|escalation)_store_failures_total [1-9]/

  for (const { name, begin, end, reason } of states) {
    it(`${name}: serves or refuses calls as the policy says, with the reason in logs, metrics and /readyz`, async () => {
      await using redis = await startRedis()
      for (const use of uses) {
        await using gateway = await startTestGateway({
          targets: { files: upstream.url },
          admin: { port: 0 },
          ...use.settings(redis.url),
        })
        const call = async () => (await gateway.invoke('/mcp/files/read@1', use.args, use.headers)).status
        upstream.calls.length = 0
        await begin(redis)
        expect(await call(), use.name).to.equal(use.status)
        expect(upstream.calls, use.name).to.have.length(use.status === 200 ? 1 : 0)
        expect(said(gateway), use.name).to.match(use.effect).and.match(reason)
        expect(await readiness(gateway), use.name).to.match(reason)
        expect(await metrics(gateway), use.name).to.match(failures)
        await end(redis)
        // The connection may be opened anew meanwhile.
        while ((await call()) !== (use.afterwards ?? 200) || reason.test(await readiness(gateway)));
      }
    })
  }

  it('older from the start, without a command that is needed: refuses every call, as it may have blocks, unless the policy allows calls without it', async () => {
    await using redis = await startRedis(['--rename-command', 'EVALSHA', ''])
    for (const use of uses) {
      await using gateway = await startTestGateway({
        targets: { files: upstream.url },
        admin: { port: 0 },
        ...use.settings(redis.url),
      })
      upstream.calls.length = 0
      const response = await gateway.invoke('/mcp/files/read@1', use.args, use.headers)
      const isServed = use.status === 200
      expect(response.status, use.name).to.equal(isServed ? 200 : 503)
      expect(upstream.calls, use.name).to.have.length(isServed ? 1 : 0)
      expect(await readiness(gateway), use.name).to.match(/unknown command/)
      const effect = isServed ? use.effect : /none was ever read, so calls are refused/
      expect(said(gateway), use.name)
        .to.match(effect)
        .and.match(/unknown command/)
      expect(await metrics(gateway), use.name).to.match(isServed ? failures : /^svc_ready 0$/m)
    }
  })
})
