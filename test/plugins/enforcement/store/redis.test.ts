import { hostClock } from '@svc/core'
import { RedisKeyValueStore } from '@svc/core/redis'
import { EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { advanceRedis } from '../../../core/store/key-value/deployments.js'
import { ofSuite } from '../../../support/parts.js'
import { startRedis, until } from '../../../support/redis.js'
import { entry, escalationStoreSuite } from './suite.js'

const DAY = 86_400_000
const PREFIX = 'svc:escalations:'
const { signal } = new AbortController()
const none = { replaces: undefined, maxPending: 20, maxInputBytes: 100, now: entry('').createdAt }

describe('redis', () => {
  const server = ofSuite(() => startRedis())

  async function openValues(keyPrefix = PREFIX): Promise<RedisKeyValueStore> {
    const store = new RedisKeyValueStore({ url: server.url, keyPrefix, clock: hostClock })
    await store.connect(signal)
    return store
  }

  escalationStoreSuite('redis', async () => {
    await server.send('FLUSHALL')
    const store = await openValues()
    return { store, advance: (ms) => advanceRedis(server, PREFIX, ms), close: () => store.close() }
  })

  describe('escalations in redis', () => {
    beforeEach(() => server.send('FLUSHALL'))

    const open = async (keyPrefix?: string) => new EscalationStore(await openValues(keyPrefix))

    it('are those of all gateways that share the server and the prefix', async () => {
      const [one, two, other] = await Promise.all([open(), open(), open('other:')])
      await one.open(entry('a'), none)
      expect(await two.get('a')).to.deep.equal(entry('a'))
      expect(await other.get('a')).to.equal(undefined)
      const keys = (await server.send('KEYS', '*')) as string[]
      expect(keys.every((key) => key.startsWith(`${PREFIX}{escalations}`))).to.equal(true)
      for (const store of [one, two, other]) await store.close()
    })

    it('leave no keys behind', async () => {
      const store = await open()
      await store.open(entry('a', { forgetAt: none.now + 20, isPending: false }), none)
      await until(async () => ((await server.send('KEYS', '*')) as string[]).length === 0)
      await store.close()
    })

    it('fill a page beside entries that have been deleted without their places', async () => {
      const store = await open()
      for (const id of ['a', 'b', 'c', 'd']) await store.open(entry(id), none)
      for (const id of ['a', 'b']) await server.send('DEL', `${PREFIX}{escalations}:entry/${id}`)
      const page = await store.page(undefined, 2, { isPending: true, first: 'oldest' })
      expect(page.map(({ id }) => id)).to.deep.equal(['c', 'd'])
      await store.close()
    })

    it('have the time of the server, whatever the wall clocks of the gateways show', async () => {
      const serverTime = async () => {
        const [seconds = 0, micros = 0] = ((await server.send('TIME')) as string[]).map(Number)
        return seconds * 1_000 + micros / 1_000
      }
      const clocks = [0, 1, 2].map((n) => new FakeClock(none.now + n * DAY))
      for (const clock of clocks) {
        const store = new RedisKeyValueStore({ url: server.url, keyPrefix: PREFIX, clock })
        await store.connect(signal)
        const escalations = new EscalationStore(store)
        expect(escalations.now?.()).to.be.closeTo(await serverTime(), 5_000)
        const before = escalations.now?.() ?? 0
        clock.set(0)
        expect(escalations.now?.()).to.equal(before)
        clock.advance(1_000)
        expect(escalations.now?.()).to.equal(before + 1_000)
        // After a suspension, or on another server, the next response counts.
        clock.advance(DAY)
        await escalations.due(before, 1)
        expect(escalations.now?.()).to.be.closeTo(await serverTime(), 5_000)
        await store.close()
      }
    })

    it('reject and report it while Redis cannot be reached', async () => {
      const url = 'redis://127.0.0.1:1'
      const store = new EscalationStore(
        new RedisKeyValueStore({ url, keyPrefix: PREFIX, connectTimeoutMs: 100, clock: hostClock }),
      )
      const [opening] = await Promise.allSettled([store.connect(signal)])
      expect(opening).to.have.property('status', 'rejected')
      expect(store.ready()).to.match(/^Redis is not connected/)
      const [asking] = await Promise.allSettled([store.get('a')])
      expect(asking).to.have.property('status', 'rejected')
      await store.close()
    })
  })
})
