import type { QuotaAdapter } from '@svc/core'
import { MemoryQuotaAdapter } from '@svc/plugin-quotas'
import { MemoryCounts } from '@svc/plugin-quotas/internal/store/memory/counts'
import { expect } from 'chai'
import { quotaAdapterSuite } from './suite.js'

quotaAdapterSuite('memory', async () => ({
  adapter: new MemoryQuotaAdapter(),
  close: async () => undefined,
}))

quotaAdapterSuite('memory of the stage', async () => {
  const counts = new MemoryCounts()
  const adapter: QuotaAdapter = {
    incrDaily: async (...args) => counts.incrDaily(...args),
    takeToken: async (...args) => counts.takeToken(...args),
    countCall: async (...args) => counts.countCall(...args),
    refundDaily: async (...args) => counts.refundDaily(...args),
  }
  return { adapter, close: async () => undefined }
})

describe('memory of the quotas stage', () => {
  it('gives back what it counted for the day when a later limit has no room', () => {
    const counts = new MemoryCounts({ maxKeys: 1 })
    const day = (tool: string) => ({ unit: 'day', tool, callsPerDay: 5 }) as const
    expect(() => counts.countCall('t', [day('a'), day('b')], 0)).to.throw(/takes no more/)
    expect(counts.size).to.equal(0)
    expect(counts.countCall('t', [day('a')], 0)[0]?.value).to.equal(1)
  })
})

describe('memory quota adapter', () => {
  it('uses its clock when no time is given', async () => {
    let now = Date.UTC(2026, 0, 1)
    const adapter = new MemoryQuotaAdapter({ now: () => now })
    await adapter.takeToken('t', 'a', 1, 1)
    await adapter.incrDaily('t', 'a', 1)
    expect((await adapter.takeToken('t', 'a', 1, 1)).tokens).to.be.lessThan(0)
    expect((await adapter.incrDaily('t', 'a', 1)).count).to.equal(2)
    now += 86_400_000
    expect((await adapter.takeToken('t', 'a', 1, 1)).tokens).to.equal(0)
    expect((await adapter.incrDaily('t', 'a', 1)).count).to.equal(1)
  })

  it('deletes full buckets', async () => {
    const adapter = new MemoryQuotaAdapter()
    for (let tenant = 0; tenant < 10_000; tenant++) await adapter.takeToken(`t${tenant}`, 'a', 1, 1, 0)
    expect(adapter.size).to.equal(10_000)
    for (let call = 0; call < 10_000; call++) await adapter.takeToken('busy', 'a', 1, 1, 5000 + call)
    expect(adapter.size).to.equal(1)
  })

  it('stays small with an unlimited number of tenants', async () => {
    const adapter = new MemoryQuotaAdapter()
    let largest = 0
    for (let call = 0; call < 50_000; call++) {
      // A thousand a second, full again after one: a thousand are live at a time.
      await adapter.takeToken(`t${call}`, 'a', 1, 1, call)
      largest = Math.max(largest, adapter.size)
    }
    expect(largest).to.be.lessThan(4_000)
  })

  it('keeps a bucket that is not full', async () => {
    const adapter = new MemoryQuotaAdapter()
    await adapter.takeToken('slow', 'a', 0.001, 1, 0)
    for (let call = 0; call < 1000; call++) await adapter.takeToken(`t${call}`, 'a', 1, 1, call)
    expect((await adapter.takeToken('slow', 'a', 0.001, 1, 1000)).tokens).to.be.lessThan(0)
  })

  it('deletes past days while it counts for new keys', async () => {
    const adapter = new MemoryQuotaAdapter()
    const day = 86_400_000
    for (let tenant = 0; tenant < 1000; tenant++) await adapter.incrDaily(`t${tenant}`, 'a', 5, 0)
    await adapter.incrDaily('t', 'a', 5, day)
    expect(adapter.size).to.equal(1001)
    for (let tenant = 0; tenant < 600; tenant++) await adapter.incrDaily(`t${tenant}`, 'a', 5, 2 * day)
    expect(adapter.size).to.equal(601)
  })

  it('refuses new keys when it is full, and counts the others', async () => {
    const adapter = new MemoryQuotaAdapter({ maxKeys: 2 })
    for (const tenant of ['a', 'b']) {
      await adapter.takeToken(tenant, 'x', 1, 5, 0)
      await adapter.incrDaily(tenant, 'x', 5, 0)
    }
    const errors = await Promise.allSettled([
      adapter.takeToken('c', 'x', 1, 5, 0),
      adapter.incrDaily('c', 'x', 5, 0),
    ])
    expect(errors.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected'])
    expect((await adapter.incrDaily('a', 'x', 5, 0)).count).to.equal(2)
    expect((await adapter.takeToken('b', 'x', 1, 5, 0)).tokens).to.equal(3)
  })

  it('is full for one tenant and not for the others', async () => {
    const adapter = new MemoryQuotaAdapter({ maxKeysPerTenant: 2 })
    for (const tool of ['x', 'y']) {
      await adapter.takeToken('a', tool, 1, 5, 0)
      await adapter.incrDaily('a', tool, 5, 0)
    }
    const attempts = (tenant: string) =>
      Promise.allSettled([adapter.takeToken(tenant, 'z', 1, 5, 0), adapter.incrDaily(tenant, 'z', 5, 0)])
    expect((await attempts('a')).map(({ status }) => status)).to.deep.equal(['rejected', 'rejected'])
    expect((await attempts('b')).map(({ status }) => status)).to.deep.equal(['fulfilled', 'fulfilled'])
    expect((await adapter.incrDaily('a', 'x', 5, 0)).count).to.equal(2)
  })

  it('has room again for a tenant whose counts are refunded and whose buckets are full', async () => {
    const adapter = new MemoryQuotaAdapter({ maxKeysPerTenant: 1 })
    await adapter.takeToken('a', 'x', 1, 1, 0)
    await adapter.incrDaily('a', 'x', 5, 0)
    await adapter.refundDaily('a', 'x', 0)
    expect((await adapter.incrDaily('a', 'y', 5, 0)).count).to.equal(1)
    expect((await adapter.takeToken('a', 'y', 1, 1, 5000)).tokens).to.equal(0)
  })

  it('rejects an infinite burst', async () => {
    const [error] = await Promise.allSettled([
      new MemoryQuotaAdapter().takeToken('t', 'a', 1, Number.POSITIVE_INFINITY, 0),
    ])
    expect(error?.status).to.equal('rejected')
  })
})
