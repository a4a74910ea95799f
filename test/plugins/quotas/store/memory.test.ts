import { MemoryQuotaAdapter } from '@svc/plugin-quotas'
import { expect } from 'chai'
import { quotaAdapterSuite } from './suite.js'

quotaAdapterSuite('memory', async () => ({
  adapter: new MemoryQuotaAdapter(),
  close: async () => undefined,
}))

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

  it('rejects an infinite burst', async () => {
    const [error] = await Promise.allSettled([
      new MemoryQuotaAdapter().takeToken('t', 'a', 1, Number.POSITIVE_INFINITY, 0),
    ])
    expect(error?.status).to.equal('rejected')
  })
})
