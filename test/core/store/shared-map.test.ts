import { randomUUID } from 'node:crypto'
import type { MapBounds, SharedMap } from '@svc/core'
import { LmdbMap, LmdbSharedStore, LmdbStore, type MapKey } from '@svc/core/lmdb'
import { RedisSharedStore } from '@svc/core/redis'
import { MemoryMap } from '@svc/core/store'
import { expect } from 'chai'
import {
  type RedisCluster,
  type RedisServer,
  startRedis,
  startRedisCluster,
  until,
} from '../../support/redis.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const clock = { now: Date.now, monotonic: () => performance.now() }
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
  const stores: RedisSharedStore[] = []
  const dir = new TemporaryDir()
  const disk = new LmdbStore<MapKey>({ dir: dir.path, name: 'the store' })
  const open = (store: RedisSharedStore): RedisSharedStore => {
    stores.push(store)
    return store
  }

  before(async () => {
    ;[redis, cluster] = await Promise.all([startRedis(), startRedisCluster()])
  })

  after(async () => {
    for (const store of stores) store.close()
    await disk.close()
    dir[Symbol.dispose]()
    await Promise.all([redis[Symbol.asyncDispose](), cluster[Symbol.asyncDispose]()])
  })

  suite('of one process', (given) => new MemoryMap(given, clock))
  suite('on disk', (given) => new LmdbMap(disk, randomUUID(), given, clock))
  suite('in Redis', (given) =>
    open(new RedisSharedStore({ url: redis.url }, 'svc:')).map(randomUUID(), given))
  suite('in a cluster of Redis', (given) =>
    open(new RedisSharedStore({ url: String(cluster.nodes[0]?.url), cluster: true }, 'svc:')).map(
      randomUUID(),
      given,
    ))

  it('on disk is the same for all processes of a host, as are its secrets', async () => {
    const [one, other] = [1, 2].map(() => new LmdbSharedStore(`${dir.path}/shared`, clock))
    const name = 'x'.repeat(5_000)
    await one?.map('m', bounds).set(name, [[name, '1']])
    expect(await other?.map('m', bounds).get(name, [name])).to.deep.equal(['1'])
    const secret = await one?.secret('s')
    expect(secret).to.have.length.of.at.least(32)
    expect(await other?.secret('s')).to.equal(secret)
    expect(await one?.secret('t')).not.to.equal(secret)
    await Promise.all([one?.close(), other?.close()])
  })

  it('on disk removes what has ended of groups that are not written any more', async () => {
    let now = 1_000
    const map = new LmdbMap(
      disk,
      randomUUID(),
      { ttlMs: 10, maxEntries: 3 },
      { now: () => now, monotonic: () => now },
    )
    const groups = Array.from({ length: 20 }, (_, i) => `g${i}`)
    for (const group of groups) await map.set(group, [['a', '1']])
    now += 11
    for (const _ of groups) for (let i = 0; i < 2; i++) await map.set('h', [['a', '2']])
    now -= 11
    const kept = await Promise.all(groups.map((group) => map.get(group, ['a'])))
    expect(kept.flat().filter((value) => value !== undefined)).to.deep.equal([])
  })

  it('in Redis leaves no keys behind when its time is over', async () => {
    const prefix = `${randomUUID()}:`
    const map = open(new RedisSharedStore({ url: redis.url }, prefix)).map('m', { ttlMs: 20, maxEntries: 3 })
    await map.set('g', [['a', '1']])
    await until(async () => ((await redis.send('KEYS', `${prefix}*`)) as string[]).length === 0)
  })

  it('in Redis that cannot be reached rejects with the reason', async () => {
    const store = open(new RedisSharedStore({ url: 'redis://127.0.0.1:1', connectTimeoutMs: 200 }, 'svc:'))
    const error = await store.map('m', bounds).get('g', ['a']).catch(String)
    expect(error).to.match(/Redis is not connected: .*ECONNREFUSED/)
  })
})
