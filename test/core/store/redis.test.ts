import { type CounterLimit, hostClock } from '@svc/core'
import { RedisConnection, RedisKeyValueStore, script } from '@svc/core/redis'
import { expect } from 'chai'
import { type RedisServer, startRedis, until } from '../../support/redis.js'
import { rejectionOf } from '../../support/rejection.js'
import { inRedis } from './key-value/deployments.js'

const { signal } = new AbortController()
const increment = script(`return redis.call('INCR', KEYS[1])`)

describe('a connection to a Redis that fails', function () {
  this.timeout(60_000)
  let server: RedisServer
  let connection: RedisConnection

  beforeEach(async () => {
    server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
  })

  afterEach(async () => {
    connection.close()
    await server[Symbol.asyncDispose]()
  })

  const to = (timeoutMs: number) => {
    connection = new RedisConnection({
      url: server.url,
      connectTimeoutMs: timeoutMs,
      socketTimeoutMs: timeoutMs,
    })
    return connection
  }
  const count = () => connection.run(increment, 'k', [])
  const works = async () => (await Promise.allSettled([count()]))[0]?.status === 'fulfilled'

  it('rejects commands at once while it is down, and recovers when it is back', async () => {
    // Longer than the test may take: a command that waited for the server would fail it.
    await to(600_000).connect(signal)
    await count()
    await server.kill('SIGKILL')
    await until(async () => connection.ready() !== undefined)
    expect(connection.ready()).to.match(/^Redis is not connected: /)
    expect((await rejectionOf(count())).message).to.match(/^Redis: /)
    await server.restart()
    await until(async () => connection.ready() === undefined)
    expect(await count()).to.equal(2)
  })

  it('replaces a connection on which nothing is received', async () => {
    await to(1000).connect(signal)
    await server.kill('SIGSTOP')
    expect((await rejectionOf(count())).message).to.match(/^Redis: /)
    await server.kill('SIGCONT')
    await until(works)
  })

  it('times out for a server that hangs', async () => {
    await server.kill('SIGSTOP')
    expect((await rejectionOf(to(1000).connect(signal))).message).to.equal(
      'Redis cannot be reached: no connection yet; start it, or correct redisUrl',
    )
    await server.kill('SIGCONT')
    await until(works)
  })

  it('has no notices while it is down, and gives one when it is back, as some may have been missed', async () => {
    let notices = 0
    const watch = to(1000).subscribe('news', () => notices++)
    await until(async () => watch.isLive)
    await server.kill('SIGKILL')
    await until(async () => !watch.isLive)
    notices = 0
    await server.restart()
    await until(async () => notices === 1)
    expect(watch.isLive).to.equal(true)
    watch.close()
    await until(async () => !watch.isLive)
  })

  it('gives no notices to a user who has no channels, and takes its commits', async () => {
    await server.send('ACL', 'SETUSER', 'quiet', 'on', '>s3cret', '~*', '+@all', 'resetchannels')
    const url = server.url.replace('//', '//quiet:s3cret@')
    to(1000)
    const store = new RedisKeyValueStore({ url, keyPrefix: 'svc:', clock: hostClock })
    await store.connect(signal)
    const space = { name: 'news', isWatched: true }
    const watch = store.watch(space, () => undefined)
    await store.commit(space, [{ key: 'k', value: 'v', version: '1' }])
    expect((await store.get(space, ['k'])).entries[0]?.value).to.equal('v')
    expect(watch.isLive).to.equal(false)
    watch.close()
    await store.close()
  })

  it('rejects without a server, and connects to one that starts later', async () => {
    await server.kill('SIGKILL')
    expect((await rejectionOf(to(1000).connect(signal))).message).to.match(
      /^Redis cannot be reached: .*ECONNREFUSED/,
    )
    await server.restart()
    await until(works)
  })
})

describe('counters in Redis', () => {
  const day = (key: string): CounterLimit => ({ key, max: 5, window: { ms: 86_400_000 } })
  const rate = (key: string): CounterLimit => ({ key, max: 1, perSecond: 1 })
  const space = { name: 't/acme', maxOwned: 2 }

  it('leave room for those of other spaces, and for new ones when others have ended', async () => {
    await using server = await startRedis()
    const deployment = await inRedis([server], { url: server.url })
    const store = await deployment.open()
    await store.take(space, [day('a'), rate('b')])
    const full = /2 counters of a space and takes no more of it/
    expect((await rejectionOf(Promise.resolve(store.take(space, [day('c')])))).message).to.match(full)
    expect((await store.take(space, [day('a')])).uses[0]?.left).to.equal(3)
    expect((await store.take({ ...space, name: 't/other' }, [day('c')])).isTaken).to.equal(true)
    await deployment.advance(10_000)
    expect((await store.take(space, [day('c')])).isTaken).to.equal(true)
    expect((await rejectionOf(Promise.resolve(store.take(space, [rate('b')])))).message).to.match(full)
    await store.settle(space, [{ ...day('c'), amount: -1 }], { at: deployment.instant() })
    expect((await store.take(space, [rate('b')])).isTaken).to.equal(true)
    expect(
      await server.send('PTTL', `${String(((await server.send('KEYS', '*{t/acme}#room')) as string[])[0])}`),
    ).to.be.above(0)
    await store.close?.()
  })

  it('end although one operation changes a new one twice', async () => {
    await using server = await startRedis()
    const deployment = await inRedis([server], { url: server.url })
    const store = await deployment.open()
    const change = { ...day('a'), amount: 1 }
    await store.settle(space, [change, change], { at: deployment.instant() })
    const [key] = (await server.send('KEYS', '*:w/*')) as string[]
    expect(await server.send('PTTL', String(key))).to.be.above(0)
    expect((await store.take(space, [day('a')])).uses[0]?.left).to.equal(2)
    await store.close?.()
  })
})
