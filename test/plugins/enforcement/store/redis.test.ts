import { RedisEscalationStore } from '@svc/plugin-enforcement/redis'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { type RedisServer, startRedis } from '../../../support/redis.js'
import { entry, escalationStoreSuite } from './suite.js'

const DAY = 86_400_000
const { signal } = new AbortController()
const none = { replaces: undefined, maxPending: 20, maxInputBytes: 100, now: entry('').createdAt }

describe('redis', () => {
  let server: RedisServer

  before(async () => {
    server = await startRedis()
  })

  after(() => server[Symbol.asyncDispose]())

  async function open(options: { url?: string; keyPrefix?: string } = {}): Promise<RedisEscalationStore> {
    const store = new RedisEscalationStore({ url: server.url, ...options })
    await store.connect(signal)
    return store
  }

  escalationStoreSuite('redis', async () => {
    await server.send('FLUSHALL')
    const store = await open()
    return { store, close: () => store.close() }
  })

  describe('redis escalation store', () => {
    beforeEach(() => server.send('FLUSHALL'))

    it('is one for all gateways that share the server and the prefix', async () => {
      const [one, two, other] = await Promise.all([open(), open(), open({ keyPrefix: 'other:' })])
      await one.open(entry('a'), none)
      expect(await two.get('a')).to.deep.equal(entry('a'))
      expect(await other.get('a')).to.equal(undefined)
      const keys = (await server.send('KEYS', '*')) as string[]
      expect(keys.every((key) => key.startsWith('svc:escalations:{all}:'))).to.equal(true)
      for (const store of [one, two, other]) await store.close()
    })

    it('leaves no keys of deleted entries', async () => {
      const store = await open()
      await store.open(entry('a', { forgetAt: none.now + 1 }), none)
      await store.due(none.now + 1, 9)
      expect(await server.send('KEYS', '*')).to.deep.equal([])
      await store.close()
    })

    it('fills a page beside entries that another version has deleted', async () => {
      const store = await open()
      for (const id of ['a', 'b', 'c', 'd']) await store.open(entry(id), none)
      for (const id of ['a', 'b']) await server.send('DEL', `svc:escalations:{all}:entry:${id}`)
      const page = await store.page(undefined, 2, { isPending: true, first: 'oldest' })
      expect(page.map(({ id }) => id)).to.deep.equal(['c', 'd'])
      await store.close()
    })

    it('has the time of the server, whatever the wall clocks of the gateways show', async () => {
      const serverTime = async () => {
        const [seconds = 0, micros = 0] = ((await server.send('TIME')) as string[]).map(Number)
        return seconds * 1_000 + micros / 1_000
      }
      const clocks = [0, 1, 2].map((n) => new FakeClock(none.now + n * DAY))
      const stores = clocks.map((clock) => new RedisEscalationStore({ url: server.url, clock }))
      await Promise.all(stores.map((store) => store.connect(signal)))
      const now = await serverTime()
      for (const [n, store] of stores.entries()) {
        expect(store.now?.()).to.be.closeTo(now, 5_000)
        const before = store.now?.() ?? 0
        clocks[n]?.set(0)
        expect(store.now?.()).to.equal(before)
        clocks[n]?.advance(1_000)
        expect(store.now?.()).to.equal(before + 1_000)
        // After a suspension, or on another server, the next reading counts.
        clocks[n]?.advance(DAY)
        await store.due(before, 1)
        expect(store.now?.()).to.be.closeTo(await serverTime(), 5_000)
        await store.close()
      }
    })

    it('rejects and reports it while Redis cannot be reached', async () => {
      const store = new RedisEscalationStore({ url: 'redis://127.0.0.1:1', connectTimeoutMs: 100 })
      const [opening] = await Promise.allSettled([store.connect(signal)])
      expect(opening).to.have.property('status', 'rejected')
      expect(store.ready()).to.match(/^Redis is not connected/)
      const [asking] = await Promise.allSettled([store.get('a')])
      expect(asking).to.have.property('status', 'rejected')
      await store.close()
    })
  })
})
