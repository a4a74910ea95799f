import { MemoryEscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { entry, escalationStoreSuite } from './suite.js'

escalationStoreSuite('memory', async () => ({
  store: new MemoryEscalationStore(),
  close: async () => undefined,
}))

describe('memory escalation store', () => {
  it('refuses further entries instead of dropping a pending one', async () => {
    const store = new MemoryEscalationStore({ maxEntries: 2 })
    const conditions = { replaces: undefined, maxPending: 20, maxInputBytes: 9, now: entry('').createdAt }
    await store.open(entry('a'), conditions)
    await store.open(entry('b'), conditions)
    const [third] = await Promise.allSettled([store.open(entry('c'), conditions)])
    expect(third).to.have.property('status', 'rejected')
    expect(await store.get('a')).to.include({ id: 'a' })
  })

  it('refuses further inputs beyond its bytes, until one is removed', async () => {
    const store = new MemoryEscalationStore({ maxBytes: 10 })
    const conditions = { replaces: undefined, maxPending: 20, maxInputBytes: 99, now: entry('').createdAt }
    await store.open(entry('a'), conditions, 'x'.repeat(9))
    const [second] = await Promise.allSettled([store.open(entry('b'), conditions, 'xx')])
    expect(second).to.have.property('status', 'rejected')
    expect(await store.get('b')).to.equal(undefined)
    await store.removeInput('a')
    expect(await store.open(entry('b'), conditions, 'xx')).to.equal('opened')
  })
})
