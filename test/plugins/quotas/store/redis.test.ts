import { RedisQuotaAdapter } from '@svc/plugin-quotas/redis'
import { expect } from 'chai'
import { type RedisServer, startRedis } from '../../../support/redis.js'
import { rejectionOf } from '../../../support/rejection.js'
import { quotaAdapterSuite } from './suite.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const DAY = 86_400_000
const { signal } = new AbortController()

describe('redis', () => {
  let server: RedisServer

  before(async () => {
    server = await startRedis()
  })

  after(() => server[Symbol.asyncDispose]())

  async function open(): Promise<RedisQuotaAdapter> {
    const adapter = new RedisQuotaAdapter({ url: server.url })
    await adapter.connect(signal)
    return adapter
  }

  quotaAdapterSuite(
    'redis',
    async () => {
      await server.send('FLUSHALL')
      const adapter = await open()
      return { adapter, close: () => adapter.close() }
    },
    30,
  )

  describe('redis quota adapter', () => {
    let adapter: RedisQuotaAdapter

    beforeEach(async () => {
      await server.send('FLUSHALL')
      adapter = await open()
    })

    afterEach(() => adapter.close())

    it("uses the server's clock when no time is given", async () => {
      const [seconds = 0] = ((await server.send('TIME')) as string[]).map(Number)
      const { resetAt } = await adapter.incrDaily('t', 'a', 5)
      expect([Math.floor(seconds / 86_400), Math.floor((seconds + 1) / 86_400)]).to.include(resetAt / DAY - 1)
      expect((await adapter.takeToken('t', 'a', 0.001, 1)).tokens).to.equal(0)
      const refused = await adapter.takeToken('t', 'a', 0.001, 1)
      expect(refused.tokens).to.be.lessThan(0)
      expect(refused.resetAt).to.be.within((seconds + 998) * 1000, (seconds + 1010) * 1000)
    })

    it('lets every key expire', async () => {
      await adapter.incrDaily('t', 'a', 5)
      // A hundred seconds until the bucket is full again, so that it is still there to be asked about.
      await adapter.takeToken('t', 'a', 0.01, 10)
      const keys = (await server.send('KEYS', '*')) as string[]
      expect(keys.toSorted()).to.deep.equal(['svc:quotas:{1:t:a}:bucket', 'svc:quotas:{1:t:a}:count'])
      expect(await server.send('PTTL', 'svc:quotas:{1:t:a}:bucket')).to.be.within(1, 101_000)
      expect(await server.send('PTTL', 'svc:quotas:{1:t:a}:count')).to.be.within(2 * DAY, 3 * DAY)
    })

    it('keeps only the given day and its neighbours', async () => {
      for (let day = 0; day < 5; day++) await adapter.incrDaily('t', 'a', 5, NOON + day * DAY)
      expect(await server.send('HLEN', 'svc:quotas:{1:t:a}:count')).to.equal(2)
    })

    for (const [what, spoil] of Object.entries({
      'another type': () => server.send('RPUSH', 'svc:quotas:{1:t:a}:count', 'x'),
      'no number': () => server.send('HSET', 'svc:quotas:{1:t:a}:count', NOON / DAY - 0.5, 'x'),
      'a count below one': () => server.send('HSET', 'svc:quotas:{1:t:a}:count', NOON / DAY - 0.5, '-7'),
    })) {
      it(`refuses to count if it finds ${what}`, async () => {
        await spoil()
        expect((await rejectionOf(adapter.incrDaily('t', 'a', 5, NOON))).message).to.match(
          /^Redis: (WRONGTYPE|ERR) /,
        )
        expect((await adapter.incrDaily('t', 'b', 5, NOON)).count).to.equal(1)
      })
    }

    for (const [what, value] of Object.entries({ text: 'x', 'no numbers': 'nan nan', 'a debt': '-5 0' })) {
      it(`refuses to take a token if it finds ${what}`, async () => {
        await server.send('SET', 'svc:quotas:{1:t:a}:bucket', value)
        expect((await rejectionOf(adapter.takeToken('t', 'a', 1, 1, NOON))).message).to.match(
          /^Redis: ERR the value /,
        )
      })
    }

    it('refuses to take a token from another type', async () => {
      await server.send('RPUSH', 'svc:quotas:{1:t:a}:bucket', 'x')
      expect((await rejectionOf(adapter.takeToken('t', 'a', 1, 1, NOON))).message).to.match(
        /^Redis: .*WRONGTYPE /,
      )
    })
  })
})
