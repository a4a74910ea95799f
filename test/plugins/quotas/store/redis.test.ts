import { RedisQuotaAdapter } from '@svc/plugin-quotas/redis'
import { expect } from 'chai'
import {
  type RedisCluster,
  type RedisServer,
  startRedis,
  startRedisCluster,
  startSentinel,
  until,
} from '../../../support/redis.js'
import { quotaAdapterSuite } from './suite.js'

const NOON = Date.UTC(2026, 5, 15, 12)
const DAY = 86_400_000
const { signal } = new AbortController()

async function rejection(promise: Promise<unknown>): Promise<string> {
  const [result] = await Promise.allSettled([promise])
  if (result?.status !== 'rejected') throw new Error('it did not reject')
  return (result.reason as Error).message
}

describe('redis', () => {
  let server: RedisServer

  before(async () => {
    server = await startRedis()
  })

  after(() => server[Symbol.asyncDispose]())

  async function open(url = server.url): Promise<RedisQuotaAdapter> {
    const adapter = new RedisQuotaAdapter({ url })
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

    it("goes by the server's clock when it is told no time", async () => {
      const [seconds = 0] = ((await server.send('TIME')) as string[]).map(Number)
      const { resetAt } = await adapter.incrDaily('t', 'a', 5)
      expect([Math.floor(seconds / 86_400), Math.floor((seconds + 1) / 86_400)]).to.include(resetAt / DAY - 1)
      expect((await adapter.takeToken('t', 'a', 0.001, 1)).tokens).to.equal(0)
      const refused = await adapter.takeToken('t', 'a', 0.001, 1)
      expect(refused.tokens).to.be.lessThan(0)
      expect(refused.resetAt).to.be.within((seconds + 998) * 1000, (seconds + 1010) * 1000)
    })

    it('loads its scripts again into a server that forgot them', async () => {
      await adapter.incrDaily('t', 'a', 5, NOON)
      await server.send('SCRIPT', 'FLUSH')
      expect((await adapter.incrDaily('t', 'a', 5, NOON)).count).to.equal(2)
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

    it('keeps no more days than the one asked for and its neighbours', async () => {
      for (let day = 0; day < 5; day++) await adapter.incrDaily('t', 'a', 5, NOON + day * DAY)
      expect(await server.send('HLEN', 'svc:quotas:{1:t:a}:count')).to.equal(2)
    })

    for (const [what, spoil] of Object.entries({
      'another type': () => server.send('RPUSH', 'svc:quotas:{1:t:a}:count', 'x'),
      'no number': () => server.send('HSET', 'svc:quotas:{1:t:a}:count', NOON / DAY - 0.5, 'x'),
      'a count below one': () => server.send('HSET', 'svc:quotas:{1:t:a}:count', NOON / DAY - 0.5, '-7'),
    })) {
      it(`refuses to count where it finds ${what}`, async () => {
        await spoil()
        expect(await rejection(adapter.incrDaily('t', 'a', 5, NOON))).to.match(/^Redis: (WRONGTYPE|ERR) /)
        expect((await adapter.incrDaily('t', 'b', 5, NOON)).count).to.equal(1)
      })
    }

    for (const [what, value] of Object.entries({ text: 'x', 'no numbers': 'nan nan', 'a debt': '-5 0' })) {
      it(`refuses to take a token where it finds ${what}`, async () => {
        await server.send('SET', 'svc:quotas:{1:t:a}:bucket', value)
        expect(await rejection(adapter.takeToken('t', 'a', 1, 1, NOON))).to.match(/^Redis: ERR the value /)
      })
    }

    it('refuses to take a token from another type', async () => {
      await server.send('RPUSH', 'svc:quotas:{1:t:a}:bucket', 'x')
      expect(await rejection(adapter.takeToken('t', 'a', 1, 1, NOON))).to.match(/^Redis: WRONGTYPE /)
    })

    it('passes on an error of the server without what it was asked', async () => {
      await server.send('ACL', 'SETUSER', 'clerk', 'on', '>s3cret', '~*', '+@all', '-evalsha', '-eval')
      const clerk = await open(server.url.replace('//', '//clerk:s3cret@'))
      const message = await rejection(clerk.incrDaily('ada@example.com', 'a', 5, NOON))
      expect(message).to.match(/^Redis: NOPERM /)
      expect(message).to.not.match(/ada@|s3cret/)
      await clerk.close()
    })

    it('may be opened by each generation of the gateway', async () => {
      await adapter.connect(signal)
      expect(adapter.ready()).to.equal(undefined)
    })

    it('says why it cannot be opened, and never the password', async () => {
      const wrong = new RedisQuotaAdapter({ url: server.url.replace('//', '//nobody:s3cret@') })
      const message = await rejection(wrong.connect(signal))
      expect(message).to.match(/^Redis cannot be reached: WRONGPASS/)
      expect(message).to.not.include('s3cret')
      await wrong.close()
    })

    it('never lets ten of them exceed a limit together', async () => {
      const ten = await Promise.all(Array.from({ length: 10 }, () => open()))
      const counts = await Promise.all(
        Array.from({ length: 1000 }, (_, i) => ten[i % 10]!.incrDaily('t', 'a', 300)),
      )
      const takes = await Promise.all(
        Array.from({ length: 1000 }, (_, i) => ten[i % 10]!.takeToken('t', 'a', 0.001, 200)),
      )
      expect(counts.filter(({ count }) => count <= 300)).to.have.lengthOf(300)
      expect(takes.filter(({ tokens }) => tokens >= 0)).to.have.lengthOf(200)
      await Promise.all(ten.map((each) => each.close()))
    })
  })
})

describe('redis that fails', () => {
  let server: RedisServer
  let adapter: RedisQuotaAdapter

  beforeEach(async () => {
    server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
    adapter = new RedisQuotaAdapter({ url: server.url, connectTimeoutMs: 1_000, socketTimeoutMs: 1_000 })
  })

  afterEach(async () => {
    await adapter.close()
    await server[Symbol.asyncDispose]()
  })

  const works = async () =>
    (await Promise.allSettled([adapter.incrDaily('t', 'a', 100, NOON)]))[0]?.status === 'fulfilled'

  it('rejects at once while it is gone, and counts on from where it was when it is back', async () => {
    await adapter.close()
    // Longer than a busy machine takes for anything: a call that waited for the server would be told from one that did not.
    adapter = new RedisQuotaAdapter({ url: server.url, connectTimeoutMs: 60_000, socketTimeoutMs: 60_000 })
    await adapter.connect(signal)
    await adapter.incrDaily('t', 'a', 5, NOON)
    await server.kill('SIGKILL')
    await until(async () => adapter.ready() !== undefined)
    expect(adapter.ready()).to.match(/^Redis is not connected: /)
    const before = performance.now()
    expect(await rejection(adapter.incrDaily('t', 'a', 5, NOON))).to.match(/^Redis: /)
    expect(performance.now() - before).to.be.lessThan(10_000)
    await server.restart()
    await until(async () => adapter.ready() === undefined)
    expect((await adapter.incrDaily('t', 'a', 5, NOON)).count).to.equal(2)
  })

  it('gives up a connection on which nothing is heard, and makes a new one', async () => {
    await adapter.connect(signal)
    await server.kill('SIGSTOP')
    expect(await rejection(adapter.incrDaily('t', 'a', 5, NOON))).to.match(/^Redis: /)
    await server.kill('SIGCONT')
    await until(works)
  })

  it('does not wait longer for a silent server to open than it may', async () => {
    await server.kill('SIGSTOP')
    expect(await rejection(adapter.connect(signal))).to.equal('Redis cannot be reached: no connection yet')
    await server.kill('SIGCONT')
    await until(works)
  })

  it('rejects when there is nobody to connect to, and connects when there is', async () => {
    await server.kill('SIGKILL')
    expect(await rejection(adapter.connect(signal))).to.match(/^Redis cannot be reached: .*ECONNREFUSED/)
    await server.restart()
    await until(works)
  })
})

describe('redis cluster', () => {
  let cluster: RedisCluster

  before(async function () {
    this.timeout(60_000)
    cluster = await startRedisCluster()
  })

  after(() => cluster[Symbol.asyncDispose]())

  quotaAdapterSuite(
    'redis, three nodes',
    async () => {
      for (const node of cluster.nodes) await node.send('FLUSHALL')
      const adapter = new RedisQuotaAdapter({ url: cluster.nodes[0]!.url, cluster: true })
      await adapter.connect(signal)
      return { adapter, close: () => adapter.close() }
    },
    10,
  )
})

describe('redis that fails over', () => {
  it('follows the Sentinel to the new primary', async function () {
    this.timeout(60_000)
    await using primary = await startRedis()
    await using replica = await startRedis(['--replicaof', '127.0.0.1', String(primary.port)])
    await until(async () =>
      String(await replica.send('INFO', 'replication')).includes('master_link_status:up'),
    )
    await using sentinel = await startSentinel(primary)
    const adapter = new RedisQuotaAdapter({ url: sentinel.url, sentinel: 'main', socketTimeoutMs: 500 })
    try {
      await adapter.connect(signal)
      for (let call = 0; call < 7; call++) await adapter.incrDaily('t', 'a', 10, NOON)
      await until(async () => {
        const slave = await replica.send('HVALS', 'svc:quotas:{1:t:a}:count')
        return String(slave) === '7'
      })
      // The Sentinel learns of replicas from their primary.
      await until(async () => /slaves=1,/.test(String(await sentinel.send('INFO', 'sentinel'))))
      await primary.kill('SIGKILL')
      let counted = 0
      await until(async () => {
        const [result] = await Promise.allSettled([adapter.incrDaily('t', 'a', 10, NOON)])
        if (result?.status === 'fulfilled') counted = result.value.count
        return result?.status === 'fulfilled'
      })
      expect(counted).to.equal(8)
    } finally {
      await adapter.close()
    }
  })

  it('goes on with the replica, and what that had, when a primary dies', async function () {
    this.timeout(60_000)
    await using cluster = await startRedisCluster({ replica: true })
    const adapter = new RedisQuotaAdapter({
      url: cluster.nodes[0]!.url,
      nodes: cluster.nodes.slice(1).map(({ port }) => `127.0.0.1:${port}`),
      cluster: true,
      connectTimeoutMs: 1000,
    })
    await adapter.connect(signal)
    // A tool whose counts lie on the first node.
    let tool = ''
    for (let i = 0; ; i++) {
      tool = `tool-${i}`
      const slot = Number(await cluster.nodes[0]!.send('CLUSTER', 'KEYSLOT', `{1:t:${tool}}`))
      if (slot < Math.floor(16_384 / 3)) break
    }
    for (let call = 0; call < 7; call++) await adapter.incrDaily('t', tool, 10, NOON)
    await until(async () => {
      const info = String(await cluster.nodes[0]!.send('INFO', 'replication'))
      const offset = /master_repl_offset:(\d+)/.exec(info)?.[1]
      return info.includes(`offset=${offset},`)
    })
    await cluster.nodes[0]!.kill('SIGKILL')
    let counted = 7
    await until(async () => {
      const [result] = await Promise.allSettled([adapter.incrDaily('t', tool, 10, NOON)])
      if (result?.status === 'fulfilled') counted = result.value.count
      return result?.status === 'fulfilled'
    })
    expect(counted).to.equal(8)
    await adapter.close()
  })
})
