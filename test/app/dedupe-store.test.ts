import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { recordingTo, startTestGateway, type TestGateway } from '../support/gateway.js'
import { type RedisServer, startRedis, until } from '../support/redis.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const PASSWORD = 's3cret-of-redis'
const PAY = '/mcp/shop/pay@1.0.0'
const key = { 'idempotency-key': 'order-7' }

describe('idempotency keys in Redis', () => {
  let redis: RedisServer
  let upstream: TestUpstream
  let redisUrl: string

  beforeEach(async () => {
    upstream = await startUpstream()
    redis = await startRedis()
    await redis.send('ACL', 'SETUSER', 'gateway', 'on', `>${PASSWORD}`, '~svc:dedupe:*', '+@all')
    redisUrl = redis.url.replace('//', `//gateway:${PASSWORD}@`)
  })

  afterEach(async () => {
    await redis[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  const start = (dedupe: GatewaySettings['dedupe'] = {}): Promise<TestGateway> =>
    startTestGateway({ targets: { shop: upstream.url }, dedupe: { redisUrl, ...dedupe } })

  const markOf = (response: Response) => response.headers.get('x-dedupe')

  it('are shared by all gateways with the same Redis', async () => {
    await using one = await start()
    await using two = await start()
    await using apart = await start({ namespace: 'svc:dedupe:apart' })
    expect(markOf(await one.invoke(PAY, {}, key))).to.equal('first')
    expect(markOf(await two.invoke(PAY, {}, key))).to.equal('replay')
    expect(markOf(await apart.invoke(PAY, {}, key))).to.equal('first')
  })

  it('are refused before the time limit while Redis does not respond, and looked up again afterwards', async () => {
    await using gateway = await start({ timeoutMs: 1_000 })
    expect(await gateway.invoke(PAY, {}, key)).to.have.property('status', 200)
    await redis.kill('SIGSTOP')
    const before = performance.now()
    // Without a limit it would be as long as the server is stopped; the upper bound leaves a busy machine its time.
    const refused = await gateway.invoke(PAY, {}, { 'idempotency-key': 'order-8' })
    expect(performance.now() - before).to.be.within(750, 15_000)
    expect([refused.status, refused.headers.get('retry-after')]).to.deep.equal([503, '1'])
    expect(await refused.json()).to.include({ error: 'STORE_UNAVAILABLE', sent: false })
    expect(await gateway.invoke(PAY)).to.have.property('status', 200)
    expect(await fetch(`${gateway.url}/readyz`)).to.have.property('status', 503)
    await redis.kill('SIGCONT')
    await until(async () => markOf(await gateway.invoke(PAY, {}, key)) === 'replay')
    expect(await fetch(`${gateway.url}/readyz`)).to.have.property('status', 200)
    expect(upstream.calls).to.have.lengthOf(2)
  })

  it('are looked up also if Redis responds slowly', async () => {
    await using gateway = await start({ timeoutMs: 5_000 })
    await redis.send('CLIENT', 'PAUSE', 300, 'ALL')
    const before = performance.now()
    expect(markOf(await gateway.invoke(PAY, {}, key))).to.equal('first')
    expect(performance.now() - before).to.be.greaterThan(200)
    expect(markOf(await gateway.invoke(PAY, {}, key))).to.equal('replay')
    expect(upstream.calls).to.have.lengthOf(1)
  })

  it('do not run a call again if Redis is lost between the call and its response', async () => {
    await using slow = await startUpstream((_call, response) => {
      void redis.kill('SIGKILL').then(() => response.end('ran'))
    })
    await using gateway = await startTestGateway({
      targets: { shop: slow.url },
      dedupe: { redisUrl, timeoutMs: 500, leaseSec: 1 },
    })
    const first = await gateway.invoke(PAY, {}, key)
    expect([first.status, await first.text()]).to.deep.equal([200, 'ran'])
    expect((await gateway.invoke(PAY, {}, key)).status).to.equal(503)
    // Redis has lost all data, and the gateway writes the response again.
    await redis.restart()
    await redis.send('ACL', 'SETUSER', 'gateway', 'on', `>${PASSWORD}`, '~svc:dedupe:*', '+@all')
    const keys = async () => (await redis.send('KEYS', 'svc:dedupe:{claims-*}:*')) as unknown[]
    await until(async () => (await keys()).length === 1)
    const second = await gateway.invoke(PAY, {}, key)
    expect([markOf(second), await second.text()]).to.deep.equal(['replay', 'ran'])
    expect(slow.calls).to.have.lengthOf(1)
  })

  it('prevent the start of a gateway without Redis, and do not show the password', async () => {
    await redis.kill('SIGKILL')
    const [start_] = await Promise.allSettled([start()])
    const reason = String(start_?.status === 'rejected' && start_.reason)
    expect(reason)
      .to.match(/Redis cannot be reached: .*ECONNREFUSED/)
      .and.not.include(PASSWORD)
  })

  it('do not show the password or the responses in refusals, logs and records', async () => {
    await using gateway = await start({ timeoutMs: 1_000 })
    await gateway.invoke(PAY, { card: '4111-secret' }, key)
    await redis.send('ACL', 'SETUSER', 'gateway', '>another', `<${PASSWORD}`)
    await redis.send('CLIENT', 'KILL', 'USER', 'gateway')
    await until(async () => (await gateway.invoke(PAY, {}, key)).status === 503)
    const told = [
      await (await gateway.invoke(PAY, {}, key)).text(),
      await (await fetch(`${gateway.url}/readyz`)).text(),
      JSON.stringify(gateway.log.lines),
      ...gateway.records().map((record) => JSON.stringify(record)),
    ].join('\n')
    expect(told).to.not.include(PASSWORD).and.not.include('4111-secret')
    expect(told).to.include('the dedupe store fails')
  })

  it('cause a warning if Redis may evict them', async () => {
    await redis.send('CONFIG', 'SET', 'maxmemory', '100mb')
    await redis.send('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    await using gateway = await start()
    const ready = (await (await fetch(`${gateway.url}/readyz`)).json()) as { warnings?: string[] }
    expect(ready.warnings).to.deep.equal([
      'dedupe: Redis may evict keys (maxmemory-policy allkeys-lru): a call whose key it has evicted can run again',
    ])
  })

  it('keep their connection across a reload', async () => {
    await using gateway = await start()
    const connections = async () =>
      [...String(await redis.send('CLIENT', 'LIST')).matchAll(/^id=(\d+) .*user=gateway/gm)].map(
        ([, id]) => id,
      )
    await gateway.invoke(PAY, {}, key)
    // One for keys, one for the list of blocks, and one for its notices.
    await until(async () => (await connections()).length === 3)
    const before = await connections()
    await gateway.handle.reload({ dedupe: { redisUrl } })
    expect(markOf(await gateway.invoke(PAY, {}, key))).to.equal('replay')
    expect(await connections()).to.deep.equal(before)
  })
})

describe('idempotency keys on disk', () => {
  it('do not let the gateway start if their file is not a database', async () => {
    const spoilt = (home: string) => {
      mkdirSync(join(home, 'dedupe'))
      writeFileSync(join(home, 'dedupe', 'data.mdb'), 'not a database, but text of some length')
      return { sec0Dir: home, targets: {}, dedupe: {} }
    }
    const [start] = await Promise.allSettled([startTestGateway(spoilt)])
    expect(String(start?.status === 'rejected' && start.reason)).to.match(/data\.mdb is not an LMDB database/)
  })

  it('have an unknown outcome when the record of their call could not be written', async () => {
    await using upstream = await startUpstream()
    let isFull = true
    const append = async () => {
      if (isFull) throw new Error('the disk is full')
    }
    await using gateway = await startTestGateway((home) => ({
      sec0Dir: home,
      targets: { shop: upstream.url },
      dedupe: {},
      ...recordingTo({ append }),
    }))
    const errorOf = async (response: Response) => ((await response.json()) as { error: string }).error
    expect(await errorOf(await gateway.invoke(PAY, {}, key))).to.equal('OUTCOME_UNRECORDED')
    isFull = false
    expect(await errorOf(await gateway.invoke(PAY, {}, key))).to.equal('IDEMPOTENT_OUTCOME_UNKNOWN')
    expect(upstream.calls).to.have.lengthOf(1)
  })
})
