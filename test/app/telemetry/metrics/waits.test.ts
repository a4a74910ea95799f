import { expect } from 'chai'
import { parseMetrics, sampled } from '../../../support/prometheus.js'
import { startRedis } from '../../../support/redis.js'
import { startUpstream } from '../../../support/upstream.js'
import { startAdminRig } from '../../admin/rig.js'

describe('the metrics of waits', () => {
  it('show the time that calls wait in stages, for stores, and for the upstream', async () => {
    await using redis = await startRedis()
    await using upstream = await startUpstream()
    await using rig = await startAdminRig({
      targets: { billing: upstream.url },
      quotas: { adapter: 'redis', redisUrl: redis.url },
      entitlements: {
        default_plan: 'all',
        plans: { all: { allowlist: ['billing/*'], rate_per_sec: 1000 } },
        tenants: {},
      },
    })
    for (let n = 0; n < 5; n++) await rig.gateway.invoke('/mcp/billing/read@1')
    const families = parseMetrics((await rig.admin('/metrics')).text)
    const waits = (stage: string) => sampled(families, 'svc_stage_wait_seconds_count', { stage })
    expect(waits('upstream')).to.equal(5)
    expect(waits('quotas')).to.be.within(1, 10)
    expect(sampled(families, 'svc_audit_append_duration_seconds_count')).to.equal(5)
    expect(sampled(families, 'svc_quota_store_duration_seconds_count')).to.be.at.least(5)
    expect(sampled(families, 'svc_quota_store_duration_seconds_sum')).to.be.within(0.00001, 60)
  })
})
