import { MemoryKeyValueStore } from '@svc/core/store'
import { EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { HostClock } from '../../../core/store/key-value/deployments.js'
import { entry, escalationStoreSuite } from './suite.js'

escalationStoreSuite('memory', async () => {
  const clock = new HostClock()
  return {
    store: new MemoryKeyValueStore({ clock }),
    advance: async (ms) => {
      clock.passed += ms
    },
    close: async () => undefined,
  }
})

describe('escalations in memory', () => {
  it('are refused beyond its length instead of dropping a pending one, until an input is removed', async () => {
    const store = new EscalationStore(new MemoryKeyValueStore({ maxLength: 10_000 }))
    const conditions = { replaces: undefined, maxPending: 20, maxInputBytes: 9999, now: entry('').createdAt }
    await store.open(entry('a'), conditions, 'x'.repeat(6000))
    const [second] = await Promise.allSettled([store.open(entry('b'), conditions, 'x'.repeat(3000))])
    expect(second).to.have.property('status', 'rejected')
    expect(await store.get('a')).to.include({ id: 'a' })
    expect(await store.get('b')).to.equal(undefined)
    await store.removeInput('a')
    expect(await store.open(entry('b'), conditions, 'x'.repeat(3000))).to.equal('opened')
  })
})
