// A gauge may not state what was true of a part of the gateway that is gone. Every gauge of the tables is raised; then the part
// is removed, replaced, or done by another process.

import { join } from 'node:path'
import { HeldLock } from '@svc/plugin-audit/internal/log/files/directory-lock'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import { type SinonFakeTimers, useFakeTimers } from 'sinon'
import { failing, startCloud } from '../../../plugins/audit/log/upload/cloud.js'
import { auditIn } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { freePort } from '../../../support/loopback.js'
import { allMetrics } from '../../../support/metric-reference.js'
import { parseMetrics } from '../../../support/prometheus.js'
import { until } from '../../../support/redis.js'
import { rejectionOf } from '../../../support/rejection.js'
import { startUpstream } from '../../../support/upstream.js'
import { type AdminRig, startAdminRig } from '../../admin/rig.js'

/** Gauges that are computed, at each scrape, from what the gateway has then. */
const computed = [
  'svc_calls_in_flight',
  'svc_ready',
  'svc_workers',
  'svc_budget_limit',
  'svc_budget_used',
  'svc_budget_waiting',
  'svc_audit_queue_bytes',
]

const uploads = [
  'svc_audit_upload_pending_bytes',
  'svc_audit_upload_oldest_pending_seconds',
  'svc_audit_upload_last_success_timestamp_seconds',
]
const others = ['svc_runtime_circuit_open', 'svc_escalation_reviews_open', 'svc_notices_pending']
/** Gauges of whatever log is in force. */
const ofLog = ['svc_audit_seal_lag_seconds', 'svc_audit_disk_free_bytes']

type Policy = (changes?: {
  readonly audit?: object
  readonly endpoint?: string
  readonly escalations?: object
}) => Record<string, unknown>

/** Gauges of a store in Redis, which the gateway of this test does not have. */
const ofRedis = ['svc_store_clock_skew_seconds']

interface Raised {
  readonly rig: AdminRig
  /** Directory of the log. */
  readonly dir: string
  readonly policy: Policy
  call(): Promise<void>
  /** The gauges that have a value other than 0. */
  gauges(): Promise<readonly string[]>
}

/** Raises all gauges, except those that are computed. */
async function withGauges(timers: SinonFakeTimers, test: (raised: Raised) => Promise<void>): Promise<void> {
  await using issuer = await TestIssuer.start()
  await using upstream = await startUpstream()
  await using cloud = await startCloud()
  const unused = `127.0.0.1:${await freePort()}`
  let own = auditIn('')
  const identity = { environment: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
  const uploading = {
    ...identity,
    tenant: 'acme',
    apiBaseUrl: cloud.url,
    auditKey: 'Bearer k',
    intervalMs: 100,
  }
  const policy: Policy = ({
    audit,
    endpoint = `http://${unused}/`,
    escalations = { adapter: 'memory' },
  } = {}) => ({
    audit: {
      ...own,
      ...identity,
      checkpointIntervalMs: 500,
      presign: uploading,
      ...audit,
    },
    notices: [{ url: `http://${unused}/`, events: ['escalation.emergency'] }],
    runtime: {
      enforcement: {
        mode: 'remote',
        failureMode: 'local',
        remote: { endpoint, allowInsecureHttp: true, maxRetries: 0 },
      },
    },
    security: {
      egress_allowlist: [],
      side_effects: { approve_high_risk: true, human_escalation: { emergency: { roles: ['oncall'] } } },
    },
    enforcement: { escalate_on: ['egress_violation'], escalations },
  })
  await using rig = await startAdminRig((home) => {
    own = auditIn(home)
    return {
      plugins: [],
      targets: { files: upstream.url },
      authn: { oidc: issuer.oidc },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
      policyObject: policy(),
    }
  })
  const authorization = `Bearer ${await issuer.sign({ roles: ['oncall'] })}`
  const call = async (args: object = {}) => {
    const headers = { authorization, 'x-escalation-emergency': 'the site is down' }
    expect((await rig.gateway.invoke('/mcp/files/fetch@1', args, headers)).status).to.equal(200)
  }
  const gauges = async () => {
    const families = parseMetrics((await rig.admin('/metrics')).text)
    return [...families].flatMap(([name, { type, samples }]) =>
      type === 'gauge' && samples.some(({ value }) => value !== 0) ? [name] : [],
    )
  }
  for (let n = 0; n < 5; n++) await call()
  await until(async () => (await gauges()).includes('svc_audit_upload_last_success_timestamp_seconds'))
  cloud.intercept = failing('', 500)
  await call({ url: 'https://evil.example/' })
  await timers.tickAsync(5_000)
  await until(async () => {
    const raised = await gauges()
    return [...uploads, ...others, ...ofLog].every((name) => raised.includes(name))
  })
  await test({ rig, dir: own.dir, policy, call, gauges })
}

describe('gauges', () => {
  let timers: SinonFakeTimers
  beforeEach(() => {
    timers = useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  })
  afterEach(() => timers.restore())

  it('are each in one of the lists of this test', () => {
    const declared = allMetrics.flatMap(({ name, kind }) => (kind === 'gauge' ? [name] : []))
    expect([...computed, ...uploads, ...others, ...ofLog, ...ofRedis]).to.have.members(declared)
  })

  const cases: readonly {
    readonly title: string
    readonly gone: readonly string[]
    change(raised: Raised): Promise<unknown>
  }[] = [
    {
      title: 'end with the section that sets them',
      gone: [...uploads, ...others],
      change: ({ rig }) => rig.gateway.handle.reload({}),
    },
    {
      title: 'begin anew with another store, and another runtime',
      gone: ['svc_runtime_circuit_open', 'svc_escalation_reviews_open'],
      change: async ({ rig, policy }) => {
        const endpoint = `http://127.0.0.1:${await freePort()}/`
        await rig.gateway.handle.reload(policy({ endpoint, escalations: { adapter: 'lmdb' } }))
      },
    },
    {
      title: 'are not set by a process while another one has the locks of the log',
      gone: [...uploads, 'svc_audit_seal_lag_seconds'],
      change: async ({ rig, dir, policy, call }) => {
        const { handle } = rig.gateway
        await handle.reload(policy({ audit: { dir: join(dir, '..', 'other') } }))
        for (const name of ['upload', 'seal']) {
          const lock = new HeldLock(join(dir, `.svc-${name}-lock`), nodeFileSystem)
          await until(async () => lock.acquire())
          after(() => lock.release())
        }
        await handle.reload(policy())
        await call()
      },
    },
  ]
  for (const { title, gone, change } of cases) {
    it(title, () =>
      withGauges(timers, async (raised) => {
        await change(raised)
        let left: string[] = []
        const areGone = async () => {
          const values = await raised.gauges()
          left = gone.filter((name) => values.includes(name))
          return left.length === 0
        }
        await until(areGone).catch(() => expect(left).to.deep.equal([]))
      }),
    )
  }

  it('are those of the policy in force after a reload that is refused', () =>
    withGauges(timers, async ({ rig, policy, gauges }) => {
      const endpoint = `http://127.0.0.1:${await freePort()}/`
      const quotas = { adapter: 'redis', redisUrl: `redis://127.0.0.1:${await freePort()}` }
      await rejectionOf(rig.gateway.handle.reload({ ...policy({ endpoint }), quotas }))
      expect(await gauges()).to.include.members([...uploads, ...others])
    }))
})
