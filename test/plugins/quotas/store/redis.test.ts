import type { StoreAdapter } from '@svc/plugin-quotas/internal/store/adapter'
import { expect } from 'chai'
import { ofSuite } from '../../../support/parts.js'
import { startRedis } from '../../../support/redis.js'
import { rejectionOf } from '../../../support/rejection.js'
import { adapterOn, redisCounters } from './adapters.js'
import { quotaAdapterSuite } from './suite.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const DAY = 86_400_000
const { signal } = new AbortController()

describe('redis', () => {
  const server = ofSuite(() => startRedis())

  async function open(): Promise<StoreAdapter> {
    const adapter = adapterOn(redisCounters({ url: server.url }))
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
    let adapter: StoreAdapter

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

    const BUCKET = 'svc:quotas:{t/t}:b/a'
    const today = `svc:quotas:{t/t}:w/${NOON - DAY / 2}/a`

    it('lets every key expire', async () => {
      const { resetAt } = await adapter.incrDaily('t', 'a', 5)
      // A hundred seconds until the bucket is full again, so that it is still there to be asked about.
      await adapter.takeToken('t', 'a', 0.01, 10)
      const keys = (await server.send('KEYS', '*')) as string[]
      const count = `svc:quotas:{t/t}:w/${resetAt - DAY}/a`
      const room = 'svc:quotas:{t/t}#room'
      expect(keys.toSorted()).to.deep.equal([room, BUCKET, count])
      expect(await server.send('PTTL', room)).to.be.within(DAY, 4 * DAY)
      expect(await server.send('PTTL', BUCKET)).to.be.within(1, 101_000)
      expect(await server.send('PTTL', count)).to.be.within(DAY, 2 * DAY)
    })

    for (const [what, spoil] of Object.entries({
      'another type': () => server.send('RPUSH', today, 'x'),
      'no number': () => server.send('SET', today, 'x'),
      'a count below zero': () => server.send('SET', today, '-7'),
    })) {
      it(`refuses to count if it finds ${what}`, async () => {
        await spoil()
        expect((await rejectionOf(adapter.incrDaily('t', 'a', 5, NOON))).message).to.match(
          /^Redis: .*(WRONGTYPE|ERR) /,
        )
        expect((await adapter.incrDaily('t', 'b', 5, NOON)).count).to.equal(1)
      })
    }

    for (const [what, value] of Object.entries({ text: 'x', 'no numbers': 'nan nan', 'a debt': '-5 0' })) {
      it(`refuses to take a token if it finds ${what}`, async () => {
        await server.send('SET', BUCKET, value)
        expect((await rejectionOf(adapter.takeToken('t', 'a', 1, 1, NOON))).message).to.match(
          /^Redis: ERR the value /,
        )
      })
    }

    it('refuses to take a token from another type', async () => {
      await server.send('RPUSH', BUCKET, 'x')
      expect((await rejectionOf(adapter.takeToken('t', 'a', 1, 1, NOON))).message).to.match(
        /^Redis: .*WRONGTYPE /,
      )
    })
  })
})
