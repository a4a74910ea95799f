import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { HostClock } from '../../../core/store/key-value/deployments.js'
import { TemporaryDir, temporaryDir } from '../../../support/temporary-dir.js'
import { entry, escalationStoreSuite } from './suite.js'

const none = { replaces: undefined, maxPending: 20, maxInputBytes: 100, now: entry('').createdAt }

escalationStoreSuite('lmdb', async () => {
  const dir = new TemporaryDir()
  const clock = new HostClock()
  const store = new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock })
  return {
    store,
    advance: async (ms) => {
      clock.passed += ms
    },
    async close() {
      await store.close()
      dir[Symbol.dispose]()
    },
  }
})

describe('escalations in lmdb', () => {
  const dir = temporaryDir()
  const open = () =>
    new EscalationStore(new LmdbKeyValueStore({ dir: dir.path, name: 'the store', clock: new HostClock() }))

  it('are kept when the store is closed and opened again', async () => {
    const store = open()
    await store.open(entry('a'), none)
    await store.replace(entry('a', { version: 2 }), entry('a'))
    await store.close()
    const again = open()
    expect(await again.latest('of a')).to.deep.equal(entry('a', { version: 2 }))
    expect(await again.due(none.now + 5000, 9)).to.have.length(1)
    await again.close()
  })

  it('are refused if they are not ours', async () => {
    const store = open()
    await store.open(entry('a', { version: 1.5 }), none)
    const [read] = await Promise.allSettled([store.get('a')])
    expect(read).to.have.property('status', 'rejected')
    await store.close()
  })
})
