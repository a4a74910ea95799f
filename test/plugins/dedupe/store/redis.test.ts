import { hostClock } from '@svc/core'
import { type RedisKeyValueOptions, RedisKeyValueStore } from '@svc/core/redis'
import { ClaimStore } from '@svc/core/store'
import { expect } from 'chai'
import { advanceRedis } from '../../../core/store/key-value/deployments.js'
import { ofEachTest, ofSuite } from '../../../support/parts.js'
import { startRedis, until } from '../../../support/redis.js'
import { rejectionOf } from '../../../support/rejection.js'
import { claimOf, dedupeStoreSuite, spaceNameOf } from './suite.js'

const { signal } = new AbortController()
const NAMESPACE = 'svc:dedupe:'

const claimsIn = (
  options: Pick<RedisKeyValueOptions, 'url' | 'waitReplicas' | 'waitMs' | 'socketTimeoutMs'>,
) => new ClaimStore(new RedisKeyValueStore({ keyPrefix: NAMESPACE, clock: hostClock, ...options }))

describe('redis', () => {
  const server = ofSuite(() => startRedis())

  dedupeStoreSuite(
    'redis',
    async () => {
      await server.send('FLUSHALL')
      const store = claimsIn({ url: server.url })
      await store.connect(signal)
      return { store, advance: (ms) => advanceRedis(server, NAMESPACE, ms), close: () => store.close() }
    },
    20,
  )

  describe('redis dedupe store', () => {
    let store: ClaimStore

    beforeEach(async () => {
      await server.send('FLUSHALL')
      store = claimsIn({ url: server.url })
      await store.connect(signal)
    })

    afterEach(() => store.close())

    const at = (key: string) => `${NAMESPACE}{${spaceNameOf(key)}}:${key}`

    it('lets every key expire, in every phase', async () => {
      const claim = claimOf({ key: 'k', leaseMs: 10_000, ttlMs: 100_000 })
      const left = async () => Number(await server.send('PTTL', at('k')))
      await store.claim(claim)
      expect(await left()).to.be.within(1, 10_000)
      await store.markSent(claim)
      expect(await left()).to.be.within(100_001, 110_000)
      await store.renew(claim)
      expect(await left()).to.be.within(100_001, 110_000)
      await store.complete(claim, Buffer.from('x'))
      expect(await left()).to.be.within(90_000, 100_000)
      const keys = (await server.send('KEYS', '*')) as string[]
      const room = `${NAMESPACE}{${spaceNameOf('k')}}#room/acme`
      expect(keys.filter((key) => !key.endsWith('#space'))).to.have.members([at('k'), room])
      expect(await server.send('PTTL', room)).to.be.within(100_000, 300_000_000)
    })

    it('treats a lease as lapsed that is too long after its clock was set back', async () => {
      const claim = claimOf({ key: 'k' })
      await store.claim(claim)
      await store.markSent(claim)
      const written = String(await server.send('GET', at('k')))
      const later = written.replace(/^\d+/, (instant) => String(Number(instant) + 86_400_000))
      await server.send('SET', at('k'), later, 'KEEPTTL')
      expect((await store.claim(claimOf({ key: 'k' }))).state).to.equal('unknown')
    })

    for (const [what, command, ...args] of [
      ['a list', 'RPUSH', at('k'), 'x'],
      ['no entry', 'SET', at('k'), 'x'],
      ['no version', 'SET', at('k'), '1 '],
      ['an unknown phase', 'SET', at('k'), '1 x:o  f 1'],
      ['no claim', 'SET', at('k'), '1 s:o  f'],
    ] as const) {
      it(`rejects if it finds ${what}, and serves other keys`, async () => {
        await server.send(command, ...args)
        expect((await rejectionOf(store.claim(claimOf({ key: 'k' })))).message).to.match(
          /^Redis: (WRONGTYPE|ERR) |^a stored claim cannot be read$/,
        )
        expect((await store.claim(claimOf())).state).to.equal('claimed')
      })
    }

    it('notices that the server has lost its keys, and so does a gateway that comes later', async () => {
      await store.claim(claimOf({ key: 'k' }))
      await server.send('FLUSHALL')
      const again = await store.claim(claimOf({ key: 'k' }))
      expect(again).to.have.nested.property('loss.ageMs').that.is.within(0, 5_000)
      const other = claimsIn({ url: server.url })
      await other.connect(signal)
      expect(await other.claim(claimOf({ key: 'k', owner: 'other' }))).to.deep.equal({ state: 'in_flight' })
      await store.release(claimOf({ key: 'k' }))
      await server.send('DEL', at('k'))
      expect(await other.claim(claimOf({ key: 'k' }))).to.have.property('loss')
      await other.close()
    })

    it('notices a loss that another gateway has met first', async () => {
      await store.claim(claimOf({ key: 'k' }))
      await server.send('FLUSHALL')
      const fresh = claimsIn({ url: server.url })
      await fresh.connect(signal)
      expect(await fresh.claim(claimOf({ key: 'k', owner: 'fresh' }))).to.deep.equal({ state: 'claimed' })
      await store.release(claimOf({ key: 'k' }))
      await fresh.release(claimOf({ key: 'k', owner: 'fresh' }))
      expect(await fresh.claim(claimOf({ key: 'k' }))).to.have.property('loss')
      await fresh.close()
    })

    it('reports an error of the server without its arguments', async () => {
      await server.send('ACL', 'SETUSER', 'clerk', 'on', '>s3cret', '~*', '+@all', '-evalsha', '-eval')
      const url = server.url.replace('//', '//clerk:s3cret@')
      const clerk = claimsIn({ url, waitReplicas: 1 })
      await clerk.connect(signal)
      const claim = claimOf({ fingerprint: 'a fingerprint' })
      for (const act of [
        clerk.claim(claim),
        clerk.markSent(claim),
        clerk.complete(claim, Buffer.from('body')),
      ]) {
        expect((await rejectionOf(act)).message)
          .to.match(/^Redis: NOPERM /)
          .and.not.match(/fingerprint|s3cret|body/)
      }
      await clerk.close()
    })

    it('needs only the documented rights', async () => {
      const commands = ['evalsha', 'eval', 'time', 'get', 'set', 'del', 'hmget', 'hset', 'pttl']
      commands.push('pexpire', 'zadd', 'zrem', 'zcount', 'zremrangebyscore', 'info', 'wait')
      const rights = commands.map((command) => `+${command}`)
      await server.send('ACL', 'SETUSER', 'least', 'on', '>s3cret', `~${NAMESPACE}*`, ...rights)
      const url = server.url.replace('//', '//least:s3cret@')
      const least = claimsIn({ url })
      await least.connect(signal)
      const claim = claimOf()
      await least.claim(claim)
      expect(await least.markSent(claim)).to.equal(true)
      expect(await least.renew(claim)).to.equal(true)
      expect(await least.complete(claim, Buffer.from('x'))).to.equal(true)
      expect((await least.claim(claimOf())).state).to.equal('completed')
      await least.release(claim)
      await least.close()
    })
  })
})

describe('redis with replicas', () => {
  const primary = ofEachTest(() => startRedis())
  const replica = ofEachTest(() => startRedis(['--replicaof', '127.0.0.1', String(primary.port)]))
  beforeEach(async () => {
    await until(async () =>
      String(await replica.send('INFO', 'replication')).includes('master_link_status:up'),
    )
  })

  /** Milliseconds that no test reaches: each ends when the replica has responded. */
  const UNLIMITED = { waitMs: 600_000, socketTimeoutMs: 1_200_000 }

  const waiting = (times: { waitMs: number; socketTimeoutMs?: number }) =>
    claimsIn({ url: primary.url, waitReplicas: 1, ...times })

  it('marks a call when its replicas have the mark, and rejects when they have not', async () => {
    const store = waiting(UNLIMITED)
    await store.connect(signal)
    const first = claimOf({ key: 'first' })
    await store.claim(first)
    // Also by a script that the server does not know yet.
    await primary.send('SCRIPT', 'FLUSH')
    expect(await store.markSent(first)).to.equal(true)
    const at = `${NAMESPACE}{${spaceNameOf('first')}}:first`
    expect(await replica.send('GET', at)).to.match(/^\d+ s:/)
    expect(await store.markSent(claimOf({ key: 'first' }))).to.equal(false)
    await replica.kill('SIGSTOP')
    const second = claimOf({ key: 'second' })
    await store.claim(second)
    const impatient = waiting({ waitMs: 100 })
    await impatient.connect(signal)
    expect((await rejectionOf(impatient.markSent(second))).message).to.equal(
      'Redis: 0 of 1 replicas have the mark of the call',
    )
    await replica.kill('SIGCONT')
    await impatient.close()
    await store.close()
  })

  it('knows a call on the replica that replaces its primary', async () => {
    const before = waiting(UNLIMITED)
    await before.connect(signal)
    const claim = claimOf()
    await before.claim(claim)
    expect(await before.markSent(claim)).to.equal(true)
    await primary.kill('SIGKILL')
    await replica.send('REPLICAOF', 'NO', 'ONE')
    const after = claimsIn({ url: replica.url })
    await after.connect(signal)
    expect((await after.claim(claimOf())).state).to.equal('in_flight')
    await before.close()
    await after.close()
  })

  it('sends no call whose claim was forgotten in a fail-over', async () => {
    // What the primary writes from here on never reaches it.
    await replica.send('REPLICAOF', 'NO', 'ONE')
    const before = claimsIn({ url: primary.url })
    await before.connect(signal)
    const claim = claimOf()
    await before.claim(claim)
    await primary.kill('SIGKILL')
    const after = claimsIn({ url: replica.url })
    await after.connect(signal)
    expect(await after.markSent(claim)).to.equal(false)
    expect((await after.claim(claimOf())).state).to.equal('claimed')
    await before.close()
    await after.close()
  })
})
