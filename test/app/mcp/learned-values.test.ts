import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { LearnedValues } from 'svc-sdk/internal/mcp/learned-values'
import { FakeClock } from 'svc-sdk/testing'
import { mcpState } from '../../support/mcp-state.js'
import { signalled } from '../../support/signalled.js'

describe('a value that gateways learn', () => {
  it('is not replaced by an older one that was being read from the store', async () => {
    const { happened: read, resolve: respond } = signalled<void>()
    const clock = new FakeClock()
    const store = new MemoryKeyValueStore({ clock })
    const get = store.get.bind(store)
    // What is read is older than what is learned before the response arrives.
    store.get = async (...given) => {
      const snapshot = await get(...given)
      await read
      return snapshot
    }
    const state = mcpState(clock, async () => store)
    const before = new LearnedValues(state, 'versions', { ttlMs: 60_000, maxEntries: 10 }, clock)
    await before.learn('', [['files', 'old']])
    const learned = new LearnedValues(state, 'versions', { ttlMs: 60_000, maxEntries: 10 }, clock)
    const refreshing = learned.refresh('', 'files')
    await learned.learn('', [['files', 'new']])
    respond()
    await refreshing
    expect(learned.get('', 'files')).to.equal('new')
  })
})
