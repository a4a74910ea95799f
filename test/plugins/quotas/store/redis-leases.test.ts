import { RedisKeyValueStore } from '@svc/core/redis'
import type { StoreAdapter } from '@svc/plugin-quotas/internal/store/adapter'
import { LeasedCounters } from '@svc/plugin-quotas/internal/store/leases'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { ofSuite } from '../../../support/parts.js'
import { startRedis } from '../../../support/redis.js'
import { adapterOn } from './adapters.js'

const keyPrefix = 'svc:quotas:'
const DAY = 86_400_000
const { signal } = new AbortController()

type Leased = StoreAdapter & Pick<LeasedCounters, 'endBatches'>

describe('redis leases', () => {
  let clock: FakeClock
  const opened: Leased[] = []

  const server = ofSuite(() => startRedis())

  beforeEach(async () => {
    await server.send('FLUSHALL')
    clock = new FakeClock(Date.now())
  })

  afterEach(async () => {
    for (const adapter of opened.splice(0)) await adapter.close()
  })

  async function open(calls = 10): Promise<Leased> {
    const { now, monotonic } = clock
    const store = new RedisKeyValueStore({ url: server.url, keyPrefix, clock: { now, monotonic } })
    // The sweeper's own timer is far away: tests give up batches themselves.
    const leases = new LeasedCounters(store, { calls, ms: 60_000, monotonic })
    const adapter = Object.assign(adapterOn(leases), { endBatches: () => leases.endBatches() })
    opened.push(adapter)
    await adapter.connect(signal)
    return adapter
  }

  /** The key of the count of today. */
  async function countKey(): Promise<string> {
    const [seconds = 0] = ((await server.send('TIME')) as string[]).map(Number)
    return `${keyPrefix}{t/t}:w/${Math.floor((seconds * 1000) / DAY) * DAY}/a`
  }

  const counted = async () => Number(await server.send('GET', await countKey()))

  const scriptsRun = async () => {
    const stats = String(await server.send('INFO', 'commandstats'))
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
  }

  it('call the store once per batch, with the counts of single calls', async () => {
    const adapter = await open(10)
    await server.send('CONFIG', 'RESETSTAT')
    const counts: number[] = []
    for (let call = 0; call < 10; call++) counts.push((await adapter.incrDaily('t', 'a', 1000)).count)
    expect(counts).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(await scriptsRun()).to.be.at.most(1)
    expect(await counted()).to.equal(10)
  })

  it('never exceed the limit together, ten of them', async () => {
    const ten = await Promise.all(Array.from({ length: 10 }, () => open(50)))
    const responses = await Promise.all(
      Array.from({ length: 3000 }, (_, i) => ten[i % 10]!.incrDaily('t', 'a', 1234)),
    )
    const through = responses.filter(({ count }) => count <= 1234).length
    // Calls in the batch of one adapter may stay unused, but the limit is never exceeded.
    expect(through).to.be.at.most(1234).and.at.least(1100)
    expect(await counted()).to.be.at.most(1234)
  })

  it('take the last calls one by one, so that all are usable', async () => {
    const [one, two] = [await open(50), await open(50)]
    let through = 0
    for (let call = 0; call < 24; call++) {
      if ((await (call % 2 === 0 ? one : two).incrDaily('t', 'a', 12)).count <= 12) through++
    }
    expect(through).to.equal(12)
  })

  it('never exceed the burst at once, nor rate and batches over time', async () => {
    const five = await Promise.all(Array.from({ length: 5 }, () => open(20)))
    const take = (i: number) => five[i % 5]!.takeToken('t', 'a', 0.001, 100)
    const responses = await Promise.all(Array.from({ length: 500 }, (_, i) => take(i)))
    expect(responses.filter(({ tokens }) => tokens >= 0).length).to.be.within(90, 100)
  })

  it('refund unused counts when they expire', async () => {
    const adapter = await open(10)
    await adapter.incrDaily('t', 'a', 1000)
    expect(await counted()).to.equal(10)
    clock.advance(59_999)
    await adapter.endBatches()
    expect(await counted()).to.equal(10)
    clock.advance(1)
    await adapter.endBatches()
    expect(await counted()).to.equal(1)
  })

  it('refund unused counts when they are closed', async () => {
    await (await open(10)).incrDaily('t', 'a', 1000)
    await opened.pop()?.close()
    expect(await counted()).to.equal(1)
  })

  it('use no expired batch', async () => {
    const adapter = await open(10)
    await adapter.incrDaily('t', 'a', 1000)
    clock.advance(60_000)
    // The second batch replaces the first one, whose unused calls are refunded.
    expect((await adapter.incrDaily('t', 'a', 1000)).count).to.equal(11)
    await adapter.endBatches()
    expect(await counted()).to.equal(11)
  })

  it('use no batch of yesterday', async () => {
    const adapter = await open(10)
    await adapter.incrDaily('t', 'a', 1000)
    clock.advance(DAY)
    await server.send('CONFIG', 'RESETSTAT')
    await adapter.incrDaily('t', 'a', 1000)
    // One takes the new batch, and one gives the old one back.
    expect(await scriptsRun()).to.equal(2)
    expect(await counted()).to.equal(11)
  })

  it('refund a call that was not sent', async () => {
    const adapter = await open(10)
    const { resetAt } = await adapter.incrDaily('t', 'a', 1000)
    await adapter.refundDaily('t', 'a', resetAt - 1)
    expect(await counted()).to.equal(9)
  })

  it('call the store when a time is given', async () => {
    const adapter = await open(10)
    const noon = Date.UTC(2026, 5, 15, 12)
    expect((await adapter.incrDaily('t', 'a', 1000, noon)).count).to.equal(1)
    expect(await server.send('GET', `${keyPrefix}{t/t}:w/${noon - DAY / 2}/a`)).to.equal('1')
    expect((await adapter.takeToken('t', 'a', 1, 5, noon)).tokens).to.equal(4)
  })

  it('have no batch when the store refuses or fails', async () => {
    const adapter = await open(10)
    expect((await adapter.incrDaily('t', 'a', 0)).count).to.equal(1)
    await server.send('SET', await countKey(), 'x')
    const errors = await Promise.allSettled([adapter.incrDaily('t', 'a', 5), adapter.incrDaily('t', 'a', 5)])
    expect(errors.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected'])
    await server.send('DEL', await countKey())
    expect((await adapter.incrDaily('t', 'a', 5)).count).to.equal(1)
  })
})
