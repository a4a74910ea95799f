// Redis loses its counts while gateways run: each says so until the day is over.
import { quotasPlugin } from '@svc/plugin-quotas'
import { expect } from 'chai'
import sinon from 'sinon'
import { FakeClock } from 'svc-sdk/testing'
import { ofSuite } from '../../support/parts.js'
import { startRedis, until } from '../../support/redis.js'
import { StageRig } from '../../support/stage-rig.js'

describe('a store of quotas that has lost its counts', () => {
  const redis = ofSuite(() => startRedis())

  it('is reported by the gateways that knew it, and by those that start later', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const rig = new StageRig({}, new FakeClock(Date.now()))
    const other = new StageRig({}, new FakeClock(Date.now()))
    const section = { adapter: 'redis', redisUrl: redis.url }
    const first = await rig.start(quotasPlugin, section)
    try {
      expect(first.health?.()).to.equal(undefined)
      await redis.send('FLUSHALL')
      timers.tick(300_000)
      await until(async () => first.health?.() !== undefined)
      const later = await other.start(quotasPlugin, section)
      for (const stage of [first, later]) {
        expect(stage.health?.()?.state).to.equal('warning')
        expect(stage.health?.()?.reason).to.match(/^the quota store lost its counts at \d{4}-/)
      }
      other.clock.advance(86_400_000)
      expect(later.health?.()).to.equal(undefined)
    } finally {
      timers.restore()
      await rig[Symbol.asyncDispose]()
      await other[Symbol.asyncDispose]()
    }
  })
})
