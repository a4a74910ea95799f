import { MemoryDedupeStore } from '@svc/plugin-dedupe'
import { expect } from 'chai'
import { claimOf, dedupeStoreSuite } from './suite.js'

dedupeStoreSuite('memory', async () => {
  let now = 1_000_000
  return {
    store: new MemoryDedupeStore({ now: () => now }),
    advance: async (ms) => {
      now += ms
    },
    close: async () => undefined,
  }
})

describe('memory dedupe store', () => {
  it('refuses new keys when it is full, and accepts them when old ones have expired', async () => {
    let now = 1_000_000
    const store = new MemoryDedupeStore({ now: () => now, maxKeys: 2 })
    const first = claimOf({ key: 'a' })
    await store.claim(first)
    await store.claim(claimOf({ key: 'b' }))
    const [full] = await Promise.allSettled([store.claim(claimOf({ key: 'c' }))])
    expect(full?.status).to.equal('rejected')
    expect(await store.claim(first)).to.deep.equal({ state: 'claimed' })
    now += first.leaseMs
    expect(await store.claim(claimOf({ key: 'c' }))).to.deep.equal({ state: 'claimed' })
  })
})
