import type { SharedMap } from '@svc/core'
import { expect } from 'chai'
import { LearnedValues } from 'svc-sdk/internal/mcp/learned-values'
import { FakeClock } from 'svc-sdk/testing'
import { mcpState } from '../../support/mcp-state.js'
import { signalled } from '../../support/signalled.js'

describe('a value that gateways learn', () => {
  it('is not replaced by an older one that was being read from the store', async () => {
    const { happened: read, resolve: response } = signalled<string[]>()
    const none = async () => undefined
    const map: SharedMap = { get: () => read, set: none, add: none, replace: async () => false, delete: none }
    const store = { secret: async () => '', map: () => map, close: () => undefined }
    const clock = new FakeClock()
    const state = mcpState(clock, async () => store)
    const learned = new LearnedValues(state, 'versions', { ttlMs: 60_000, maxEntries: 10 }, clock)
    const refreshing = learned.refresh('', 'files')
    await learned.learn('', [['files', 'new']])
    response(['old'])
    await refreshing
    expect(learned.get('', 'files')).to.equal('new')
  })
})
