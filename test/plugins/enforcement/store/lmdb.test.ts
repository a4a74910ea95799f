import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostClock } from '@svc/core'
import { LmdbStore } from '@svc/core/lmdb'
import { LmdbEscalationStore } from '@svc/plugin-enforcement/lmdb'
import { expect } from 'chai'
import { entry, escalationStoreSuite } from './suite.js'

const newDir = () => mkdtempSync(join(tmpdir(), 'svc-escalations-'))
const none = { replaces: undefined, maxPending: 20, maxInputBytes: 100, now: entry('').createdAt }

escalationStoreSuite('lmdb', async () => {
  const dir = newDir()
  const store = new LmdbEscalationStore(dir, hostClock)
  return {
    store,
    async close() {
      await store.close()
      rmSync(dir, { recursive: true })
    },
  }
})

describe('lmdb escalation store', () => {
  let dir: string

  beforeEach(() => {
    dir = newDir()
  })

  afterEach(() => rmSync(dir, { recursive: true }))

  it('keeps its entries when it is closed and opened again', async () => {
    const store = new LmdbEscalationStore(dir, hostClock)
    await store.open(entry('a'), none)
    await store.replace(entry('a', { version: 2 }))
    await store.close()
    const again = new LmdbEscalationStore(dir, hostClock)
    expect(await again.latest('of a')).to.deep.equal(entry('a', { version: 2 }))
    expect(await again.due(none.now + 5000, 9)).to.have.length(1)
    await again.close()
  })

  it('fills a page beside entries that another version has deleted', async () => {
    const store = new LmdbEscalationStore(dir, hostClock)
    for (const id of ['a', 'b', 'c', 'd']) await store.open(entry(id), none)
    const other = new LmdbStore<['entry', string]>({ dir, name: 'the store of another version' })
    await other.transact(() => {
      for (const id of ['a', 'b']) other.db.remove(['entry', id])
    })
    const page = await store.page(undefined, 2, { isPending: true, first: 'oldest' })
    expect(page.map(({ id }) => id)).to.deep.equal(['c', 'd'])
    await Promise.all([store, other].map((one) => one.close()))
  })

  it('removes the places of pending entries that another version has decided', async () => {
    const store = new LmdbEscalationStore(dir, hostClock)
    for (const id of ['a', 'b', 'c']) await store.open(entry(id), none)
    const other = new LmdbStore<(string | number)[]>({ dir, name: 'the store of another version' })
    await other.transact(() => {
      other.db.put(['entry', 'a'], Buffer.from(JSON.stringify(entry('a', { isPending: false, version: 2 }))))
      other.db.remove(['entry', 'b'])
    })
    const page = await store.page(undefined, 9, { isPending: true, first: 'oldest' })
    expect(page.map(({ id }) => id)).to.deep.equal(['c'])
    const places = await other.transact(() => [
      ...other.db.getKeys({ start: ['open'], end: ['open', Infinity] }),
    ])
    expect(places.map((key) => key[2])).to.deep.equal(['c'])
    const all = await store.page(undefined, 9, { first: 'oldest' })
    expect(all.map(({ id }) => id)).to.deep.equal(['a', 'c'])
    await Promise.all([store, other].map((one) => one.close()))
  })

  it('refuses an entry that is not its own', async () => {
    const store = new LmdbEscalationStore(dir, hostClock)
    await store.open(entry('a', { version: 1.5 }), none)
    const [read] = await Promise.allSettled([store.get('a')])
    expect(read).to.have.property('status', 'rejected')
    await store.close()
  })
})
