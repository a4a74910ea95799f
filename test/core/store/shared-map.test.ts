import { randomUUID } from 'node:crypto'
import { hostClock, type KeyValueStore } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { type MapBounds, mapIn, memoryMap, type SharedMap, secretIn } from '@svc/core/store'
import { expect } from 'chai'
import {
  type RedisCluster,
  type RedisServer,
  startRedis,
  startRedisCluster,
  until,
} from '../../support/redis.js'
import { rejectionOf } from '../../support/rejection.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { HostClock } from './key-value/deployments.js'

const bounds: MapBounds = { ttlMs: 60_000, maxEntries: 3 }

function suite(title: string, create: (given: MapBounds) => SharedMap): void {
  describe(title, () => {
    it('has the last value of each name, in the order that is asked for', async () => {
      const map = create(bounds)
      await map.set('g', [
        ['a', '1'],
        ['b', '2'],
      ])
      await map.set('g', [['a', '3']])
      expect(await map.get('g', ['b', 'c', 'a'])).to.deep.equal(['2', undefined, '3'])
      expect(await map.get('g', [])).to.deep.equal([])
    })

    it('keeps groups apart', async () => {
      const map = create(bounds)
      await map.set('g', [['a', '1']])
      for (const name of ['a', 'b', 'c', 'd']) await map.set('h', [[name, '2']])
      expect(await map.get('g', ['a'])).to.deep.equal(['1'])
    })

    it('adds a value only if the key has none, and returns the one that the key has', async () => {
      const map = create(bounds)
      const added = await Promise.all(['1', '2', '3'].map((value) => map.add('g', 'a', value)))
      expect(added).to.deep.equal([undefined, '1', '1'])
      expect(await map.get('g', ['a'])).to.deep.equal(['1'])
      await map.delete('g', 'a')
      expect(await map.add('g', 'a', '4')).to.equal(undefined)
    })

    it('replaces a value only by one that knows it', async () => {
      const map = create(bounds)
      expect(await map.replace('g', 'a', '', '1')).to.equal(false)
      await map.set('g', [['a', '1']])
      const replaced = await Promise.all(['2', '3'].map((value) => map.replace('g', 'a', '1', value)))
      expect(replaced).to.deep.equal([true, false])
      expect(await map.get('g', ['a'])).to.deep.equal(['2'])
    })

    it('adds a value in place of one whose time is over', async () => {
      const map = create({ ttlMs: 20, maxEntries: 3 })
      await map.add('g', 'a', '1')
      // On a slow machine the time of the second value is over before it is read.
      await until(
        async () => (await map.add('g', 'a', '2')) === undefined && (await map.get('g', ['a']))[0] === '2',
      )
    })

    it('removes a value', async () => {
      const map = create(bounds)
      await map.set('g', [['a', '1']])
      await map.delete('g', 'a')
      await map.delete('g', 'never')
      expect(await map.get('g', ['a'])).to.deep.equal([undefined])
    })

    it('removes the value that was set longest ago if a group is full', async () => {
      const map = create(bounds)
      for (const name of ['a', 'b', 'c']) {
        await map.set('g', [[name, name]])
        await nextMillisecond()
      }
      await map.set('g', [['a', 'again']])
      await map.set('g', [['d', 'd']])
      expect(await map.get('g', ['a', 'b', 'c', 'd'])).to.deep.equal(['again', undefined, 'c', 'd'])
    })

    it('forgets a value when its time is over', async () => {
      const map = create({ ttlMs: 20, maxEntries: 3 })
      await map.set('g', [['a', '1']])
      await until(async () => (await map.get('g', ['a']))[0] === undefined)
      await map.set('g', [['b', '2']])
      expect(await map.get('g', ['a'])).to.deep.equal([undefined])
    })
  })
}

/** Redis counts in milliseconds. */
async function nextMillisecond(): Promise<void> {
  const now = Date.now()
  await until(async () => Date.now() > now)
}

describe('a shared map', function () {
  this.timeout(120_000)
  let redis: RedisServer
  let cluster: RedisCluster
  const stores: KeyValueStore[] = []
  const dir = new TemporaryDir()
  const opened = <T extends KeyValueStore>(store: T): T => {
    stores.push(store)
    return store
  }
  const onDisk = (path = dir.path) =>
    opened(new LmdbKeyValueStore({ dir: path, name: 'the store', clock: hostClock }))
  const inRedis = (options: RedisConnectionOptions, keyPrefix = 'svc:') =>
    opened(new RedisKeyValueStore({ ...options, keyPrefix, clock: hostClock }))
  const disk = onDisk()

  before(async () => {
    ;[redis, cluster] = await Promise.all([startRedis(), startRedisCluster()])
  })

  after(async () => {
    await Promise.all(stores.map((store) => store.close?.()))
    dir[Symbol.dispose]()
    await Promise.all([redis[Symbol.asyncDispose](), cluster[Symbol.asyncDispose]()])
  })

  suite('of one process', (given) => memoryMap(given, hostClock))
  suite('on disk', (given) => mapIn(disk, randomUUID(), given))
  suite('in Redis', (given) => mapIn(inRedis({ url: redis.url }), randomUUID(), given))
  suite('in a cluster of Redis', (given) =>
    mapIn(inRedis({ url: String(cluster.nodes[0]?.url), cluster: true }), randomUUID(), given))

  it('on disk is the same for all processes of a host, as are its secrets', async () => {
    const [one, other] = [onDisk(`${dir.path}/shared`), onDisk(`${dir.path}/shared`)]
    const name = 'x'.repeat(5_000)
    await mapIn(one, 'm', bounds).set(name, [[name, '1']])
    expect(await mapIn(other, 'm', bounds).get(name, [name])).to.deep.equal(['1'])
    const secret = await secretIn(one, 's')
    expect(secret).to.have.length.of.at.least(32)
    expect(await secretIn(other, 's')).to.equal(secret)
    expect(await secretIn(one, 't')).not.to.equal(secret)
  })

  it('on disk removes what has ended of groups that are not written any more', async () => {
    const clock = new HostClock()
    const store = opened(new LmdbKeyValueStore({ dir: `${dir.path}/ended`, name: 'the store', clock }))
    const map = mapIn(store, 'm', { ttlMs: 10, maxEntries: 3 })
    const groups = Array.from({ length: 20 }, (_, i) => `g${i}`)
    for (const group of groups) await map.set(group, [['a', '1']])
    clock.passed += 11
    for (const _ of groups) for (let i = 0; i < 2; i++) await map.set('h', [['a', '2']])
    clock.passed -= 11
    const kept = await Promise.all(groups.map((group) => map.get(group, ['a'])))
    expect(kept.flat().filter((value) => value !== undefined)).to.deep.equal([])
  })

  it('in Redis leaves no keys behind when its time is over', async () => {
    const prefix = `${randomUUID()}:`
    const map = mapIn(inRedis({ url: redis.url }, prefix), 'm', { ttlMs: 20, maxEntries: 3 })
    await map.set('g', [['a', '1']])
    await until(async () => ((await redis.send('KEYS', `${prefix}*`)) as string[]).length === 0)
  })

  it('in Redis that cannot be reached rejects with the reason', async () => {
    const store = inRedis({ url: 'redis://127.0.0.1:1', connectTimeoutMs: 200 })
    const error = await rejectionOf(mapIn(store, 'm', bounds).get('g', ['a']))
    expect(error).to.have.property('code', 'STORE_UNAVAILABLE')
    expect(String(error.cause)).to.match(/Redis is not connected: .*ECONNREFUSED/)
  })
})
