import { ClaimStore, MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { HostClock } from '../../../core/store/key-value/deployments.js'
import { claimOf, dedupeStoreSuite } from './suite.js'

dedupeStoreSuite('memory', async () => {
  const clock = new HostClock()
  return {
    store: new ClaimStore(new MemoryKeyValueStore({ clock })),
    advance: async (ms) => {
      clock.passed += ms
    },
    close: async () => undefined,
  }
})

describe('claims in memory', () => {
  it('are refused when it is full, and accepted when old ones have expired', async () => {
    const clock = new HostClock()
    const store = new ClaimStore(new MemoryKeyValueStore({ clock, maxLength: 300 }))
    const first = claimOf({ key: 'a' })
    await store.claim(first)
    await store.claim(claimOf({ key: 'b' }))
    const more = ['c', 'd', 'e', 'f'].map((key) => store.claim(claimOf({ key })))
    const refused = (await Promise.allSettled(more)).filter(({ status }) => status === 'rejected')
    expect(refused).to.not.deep.equal([])
    clock.passed += first.leaseMs
    expect(await store.claim(claimOf({ key: 'g' }))).to.deep.equal({ state: 'claimed' })
  })
})
