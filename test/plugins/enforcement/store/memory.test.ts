import { MemoryEscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { entry, escalationStoreSuite } from './suite.js'

escalationStoreSuite('memory', async () => ({
  store: new MemoryEscalationStore(),
  close: async () => undefined,
}))

describe('memory escalation store', () => {
  it('refuses further entries rather than forget one that waits', async () => {
    const store = new MemoryEscalationStore({ maxEntries: 2 })
    const conditions = { replaces: undefined, maxPending: 20, now: entry('').createdAt }
    await store.open(entry('a'), conditions)
    await store.open(entry('b'), conditions)
    const [third] = await Promise.allSettled([store.open(entry('c'), conditions)])
    expect(third).to.have.property('status', 'rejected')
    expect(await store.get('a')).to.include({ id: 'a' })
  })
})
