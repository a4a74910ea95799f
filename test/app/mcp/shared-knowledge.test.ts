import { randomUUID } from 'node:crypto'
import { hostClock, isRefusal } from '@svc/core'
import { RedisKeyValueStore } from '@svc/core/redis'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { LearnedValues } from 'svc-sdk/internal/mcp/learned-values'
import { FakeClock } from 'svc-sdk/testing'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { type HttpResponse, info, json, result, serverOf } from '../../support/mcp-server.js'
import { mcpState } from '../../support/mcp-state.js'
import { type RedisServer, startRedis, until } from '../../support/redis.js'

type Responded = { result?: Record<string, unknown>; error?: { data?: Record<string, unknown> } }

/** The response to a request over MCP. */
async function ask(
  { url }: { url: string },
  method: string,
  params: object,
  headers: Record<string, string> = {},
): Promise<Responded> {
  const response = await fetch(`${url}/mcp/files`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return (await response.json()) as Responded
}

const reasonOf = ({ result: ran, error }: Responded) =>
  ran === undefined ? error?.data?.['denial_reason'] : 'ran'

describe('gateways that share a store', function () {
  this.timeout(60_000)
  let redis: RedisServer

  before(async () => {
    redis = await startRedis()
  })

  beforeEach(() => redis.send('FLUSHALL'))

  after(() => redis[Symbol.asyncDispose]())

  const shared = (): GatewaySettings => ({ quotas: { adapter: 'redis', redisUrl: redis.url } })

  async function withTwo(
    response: HttpResponse,
    settings: GatewaySettings,
    use: (first: TestGateway, second: TestGateway) => Promise<void>,
  ): Promise<void> {
    const { upstream } = await serverOf(response)
    await using _ = upstream
    const given = { targets: { files: `mcp+${upstream.url}/mcp` }, ...settings }
    await using first = await startTestGateway(given)
    await using second = await startTestGateway(given)
    await use(first, second)
  }

  const missing = 'missing_idempotency_for_side_effect'
  const tools = [
    { name: 'lookup', annotations: { destructiveHint: true } },
    { name: 'order_status', annotations: { readOnlyHint: true } },
  ]
  const listing: HttpResponse = (message, response) =>
    json(response, result(message, message['method'] === 'tools/list' ? { tools } : { content: [] }))
  const trusting = (): GatewaySettings => ({
    ...shared(),
    security: { side_effects: { require_idempotency_key: true, trust_annotations: true } },
  })

  it('know the annotations that one of them learned, over both protocols', () =>
    withTwo(listing, trusting(), async (first, second) => {
      const byName = await ask(second, 'tools/call', { name: 'lookup' })
      expect(reasonOf(byName)).to.equal('ran')
      await ask(first, 'tools/list', {})
      for (const gateway of [first, second]) {
        expect(reasonOf(await ask(gateway, 'tools/call', { name: 'lookup' }))).to.equal(missing)
        expect(reasonOf(await ask(gateway, 'tools/call', { name: 'order_status' }))).to.equal('ran')
      }
      const invoked = await second.invoke('/mcp/files/lookup@unversioned')
      expect(await invoked.json()).to.include({ denial_reason: missing })
      expect((await second.invoke('/mcp/files/order_status@unversioned')).status).to.equal(200)
    }))

  it('ask people about no tool that is missing in a list which one of them passed on', () =>
    withTwo(
      listing,
      {
        ...shared(),
        rules: [{ name: 'people', tools: ['files/*'], then: 'escalate' }],
        enforcement: { escalations: { adapter: 'memory' } },
      },
      async (first, second) => {
        await ask(first, 'tools/list', {})
        for (const gateway of [first, second]) {
          const unlisted = await ask(gateway, 'tools/call', { name: 'lookups' })
          expect(unlisted.error?.data).to.include({ denial_reason: 'tool_not_listed' })
          const { error } = await ask(gateway, 'tools/call', { name: 'lookup' })
          expect(error?.data).to.include({ error: 'ESCALATION_PENDING' })
        }
      },
    ))

  it('refuse a tool whose annotations are unknown while the store is down', async () => {
    await using own = await startRedis()
    const quotas = { adapter: 'redis', redisUrl: own.url, failure_mode: 'open' } as const
    await withTwo(listing, { ...trusting(), quotas }, async (first, second) => {
      await ask(first, 'tools/list', {})
      expect(reasonOf(await ask(second, 'tools/call', { name: 'order_status' }))).to.equal('ran')
      await own.kill('SIGKILL')
      expect(reasonOf(await ask(second, 'tools/call', { name: 'order_status' }))).to.equal('ran')
      const { error } = await ask(second, 'tools/call', { name: 'lookup' })
      expect(error?.data).to.include({ error: 'STORE_UNAVAILABLE' })
    })
  })

  it("know a server's latest version", async () => {
    let version = '1.0.0'
    await withTwo(
      (message, response) => {
        const { method } = message
        const content = { ...info, serverInfo: { name: 's', version } }
        json(response, result(message, method === 'server/discover' ? content : { content: [] }))
      },
      shared(),
      async (first, second) => {
        const toolOf = async (gateway: TestGateway) => {
          await ask(gateway, 'tools/call', { name: 'echo' })
          return gateway.records().at(-1)?.tool
        }
        expect(await toolOf(second)).to.equal('echo@2.0.0')
        version = '3.0.0'
        await ask(first, 'server/discover', {})
        expect(await toolOf(first)).to.equal('echo@3.0.0')
        await until(async () => (await toolOf(second)) === 'echo@3.0.0')
      },
    )
  })

  it('list the tasks that began at any of them', () =>
    withTwo(
      (message, response) => {
        const task = { taskId: 'own', status: 'working' }
        json(response, result(message, message['method'] === 'tasks/list' ? { tasks: [task] } : { task }))
      },
      shared(),
      async (first, second) => {
        expect((await ask(second, 'tasks/list', {})).result?.['tasks']).to.deep.equal([])
        const { result: begun } = await ask(first, 'tools/call', { name: 'echo', task: {} })
        const { result: listed } = await ask(second, 'tasks/list', {})
        expect(listed?.['tasks']).to.deep.equal([begun?.['task']])
      },
    ))
})

describe('learned values', function () {
  this.timeout(60_000)
  let redis: RedisServer

  before(async () => {
    redis = await startRedis()
  })

  after(() => redis[Symbol.asyncDispose]())

  const bounds = { ttlMs: 60_000, maxEntries: 2 }

  it('are used for a second before the store is read again', async () => {
    const clock = new FakeClock()
    const prefix = `${randomUUID()}:`
    const open = async () => new RedisKeyValueStore({ url: redis.url, keyPrefix: prefix, clock: hostClock })
    const states = [mcpState(clock, open), mcpState(clock, open)]
    const [one, other] = states.map((state) => new LearnedValues(state, 'm', bounds, clock))
    if (one === undefined || other === undefined) throw new Error('there are two')
    await one.learn('g', [['a', '1']])
    expect(other.get('g', 'a')).to.equal(undefined)
    await other.refresh('g', 'a')
    expect(other.get('g', 'a')).to.equal('1')
    await one.learn('g', [['a', '2']])
    clock.advance(999)
    expect(other.refresh('g', 'a')).to.equal(undefined)
    clock.advance(1)
    await other.refresh('g', 'a')
    expect(other.get('g', 'a')).to.equal('2')
    await Promise.all(states.map((state) => state.close()))
  })

  it('stay known to their gateway while the store is down', async () => {
    const clock = new FakeClock()
    const state = mcpState(
      clock,
      async () =>
        new RedisKeyValueStore({
          url: 'redis://127.0.0.1:1',
          connectTimeoutMs: 50,
          keyPrefix: 'x:',
          clock: hostClock,
        }),
    )
    const values = new LearnedValues(state, 'm', bounds, clock)
    await values.learn('g', [['a', '1']])
    expect(values.get('g', 'a')).to.equal('1')
    const refused = await values.refresh('g', 'b')?.catch((error: unknown) => error)
    expect(isRefusal(refused) && refused.code).to.equal('STORE_UNAVAILABLE')
    await state.close()
  })

  it('are read without a wait if there is no shared store', async () => {
    const clock = new FakeClock()
    const values = new LearnedValues(mcpState(clock), 'm', bounds, clock)
    await values.learn('g', [
      ['a', '1'],
      ['b', '2'],
      ['c', '3'],
    ])
    expect(values.refresh('g', 'a')).to.equal(undefined)
    expect(['a', 'b', 'c'].map((name) => values.get('g', name))).to.deep.equal([undefined, '2', '3'])
    clock.advance(60_000)
    expect(values.get('g', 'b')).to.equal(undefined)
  })
})
