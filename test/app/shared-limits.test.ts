import { expect } from 'chai'
import { type GatewaySettings, startGatewayServer } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { ofEachTest } from '../support/parts.js'
import { startRedis, until } from '../support/redis.js'
import { startUpstream } from '../support/upstream.js'

const PASSWORD = 's3cret-of-redis'
const plan = (limits: object) => ({
  default_plan: 'free',
  plans: { free: { allowlist: ['*'], ...limits } },
  tenants: {},
})

describe('gateways that share a Redis', () => {
  let redisUrl: string

  const upstream = ofEachTest(() => startUpstream())
  const redis = ofEachTest(() => startRedis())
  beforeEach(async () => {
    await redis.send('ACL', 'SETUSER', 'gateway', 'on', `>${PASSWORD}`, '~svc:quotas:*', '+@all')
    redisUrl = redis.url.replace('//', `//gateway:${PASSWORD}@`)
  })

  const options = (limits: object, quotas: object = {}): GatewaySettings => ({
    port: 0,
    tenant: 'acme',
    targets: { files: upstream.url },
    entitlements: plan(limits),
    quotas: { adapter: 'redis', redisUrl, ...quotas },
  })

  async function statuses(gateways: readonly TestGateway[], calls: number): Promise<number[]> {
    return Promise.all(
      Array.from({ length: calls }, async (_, i) => {
        const gateway = gateways[i % gateways.length]!
        return (await gateway.invoke('/mcp/files/read@1.0.0')).status
      }),
    )
  }

  it('do not exceed a limit together: ten gateways', async function () {
    this.timeout(60_000)
    // A busy machine has its time: a call that Redis does not respond to soon is refused with 503.
    const patient = options({ calls_per_day: 120 }, { timeoutMs: 15_000 })
    const started = await Promise.allSettled(Array.from({ length: 10 }, () => startTestGateway(patient)))
    const ten = started.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
    try {
      expect(ten).to.have.lengthOf(10)
      const responses = await statuses(ten, 400)
      expect(responses.filter((status) => status === 200)).to.have.lengthOf(120)
      expect(responses.filter((status) => status !== 200)).to.deep.equal(Array(280).fill(429))
      expect(upstream.calls).to.have.lengthOf(120)
    } finally {
      await Promise.all(ten.map((gateway) => gateway[Symbol.asyncDispose]()))
    }
  })

  it('do not exceed a rate together', async () => {
    await using one = await startTestGateway(options({ rate_per_sec: 0.001, burst: 15 }))
    await using two = await startTestGateway(options({ rate_per_sec: 0.001, burst: 15 }))
    expect((await statuses([one, two], 60)).filter((status) => status === 200)).to.have.lengthOf(15)
  })

  it('do not exceed a limit together if they reserve calls in advance', async () => {
    const leased = options({ calls_per_day: 60 }, { redis: { lease: { calls: 20 } } })
    await using one = await startTestGateway(leased)
    await using two = await startTestGateway(leased)
    const served = (await statuses([one, two], 150)).filter((status) => status === 200).length
    expect(served).to.be.within(54, 60)
  })

  it('refuse limited calls before the time limit while Redis does not respond, and serve them afterwards', async () => {
    await using gateway = await startTestGateway(options({ calls_per_day: 5 }, { timeoutMs: 1_000 }))
    expect(await gateway.invoke('/mcp/files/read@1.0.0')).to.have.property('status', 200)
    await redis.kill('SIGSTOP')
    const before = performance.now()
    // Without a limit it would be as long as the server is stopped; the upper bound leaves a busy machine its time.
    const refused = await gateway.invoke('/mcp/files/read@1.0.0')
    expect(performance.now() - before).to.be.within(750, 15_000)
    expect(refused.status).to.equal(503)
    expect(await refused.json()).to.include({ error: 'STORE_UNAVAILABLE', sent: false })
    expect(await fetch(`${gateway.url}/readyz`)).to.have.property('status', 503)
    await redis.kill('SIGCONT')
    await until(async () => (await gateway.invoke('/mcp/files/read@1.0.0')).status === 200)
    expect(await fetch(`${gateway.url}/readyz`)).to.have.property('status', 200)
  })

  it('count separately without Redis, if the policy allows it', async () => {
    await using gateway = await startTestGateway(options({ calls_per_day: 3 }, { failure_mode: 'local' }))
    expect(await statuses([gateway], 1)).to.deep.equal([200])
    await redis.kill('SIGKILL')
    expect((await statuses([gateway], 4)).toSorted()).to.deep.equal([200, 200, 429, 429])
  })

  it('refuse a call whose counter is damaged, and serve others', async () => {
    const today = Math.floor(Date.now() / 86_400_000) * 86_400_000
    await redis.send('RPUSH', `svc:quotas:{t/acme}:w/${today}/mcp://files/read`, 'x')
    await using gateway = await startTestGateway(options({ calls_per_day: 5 }))
    expect(await gateway.invoke('/mcp/files/read@1.0.0')).to.have.property('status', 503)
    expect(await gateway.invoke('/mcp/files/write@1.0.0')).to.have.property('status', 200)
    expect(gateway.log.lines.map(({ fields }) => fields)).to.deep.include({
      error: readError(gateway),
      failures: 1,
    })
    expect(readError(gateway)).to.match(/^Redis: .*WRONGTYPE /)
  })

  it('start without Redis, with a warning, if the policy allows calls without it', async () => {
    await redis.kill('SIGKILL')
    await using gateway = await startTestGateway(options({ calls_per_day: 1 }, { failure_mode: 'local' }))
    expect((await statuses([gateway], 2)).toSorted()).to.deep.equal([200, 429])
    const log = JSON.stringify(gateway.log.lines)
    expect(log).to.include('Redis cannot be reached').and.not.include(PASSWORD)
  })

  it('refuse an invalid address at the start, without showing it', () => {
    const policyObject = { ...options({}, { redisUrl: `http://u:${PASSWORD}@h` }) }
    expect(() => startGatewayServer({ policyObject })).to.throw(
      /^(?!.*s3cret)[\s\S]*quotas\.redisUrl: must be redis:/,
    )
  })
})

function readError(gateway: TestGateway): unknown {
  const line = gateway.log.lines.find(({ message }) => message.startsWith('the quota store fails'))
  return line === undefined ? undefined : (line.fields as { error?: unknown }).error
}
