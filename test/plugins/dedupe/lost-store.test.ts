// Redis loses its keys while calls run: none with side effects runs twice.
import { type Outcome, tokens } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { RedisKeyValueStore } from '@svc/core/redis'
import { dedupePlugin } from '@svc/plugin-dedupe'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { advanceRedis } from '../../core/store/key-value/deployments.js'
import { controlOf } from '../../support/call.js'
import { ofSuite } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'
import { StageRig } from '../../support/stage-rig.js'
import { keyed, responded } from './rig.js'

const PREFIX = 'svc:dedupe:'

describe('a store of idempotency keys that has lost them', () => {
  let rigs: StageRig[]
  let stores: RedisKeyValueStore[]
  let sent: number

  const redis = ofSuite(() => startRedis())

  beforeEach(async () => {
    await redis.send('FLUSHALL')
    rigs = []
    stores = []
    sent = 0
  })

  afterEach(async () => {
    for (const store of stores) await store.close()
    for (const rig of rigs) await rig[Symbol.asyncDispose]()
  })

  async function gateway(section: object = {}, during: () => Promise<unknown> = async () => undefined) {
    const store = new RedisKeyValueStore({ url: redis.url, keyPrefix: PREFIX, clock: new FakeClock() })
    stores.push(store)
    const own = new StageRig()
    rigs.push(own)
    own.bind(tokens.DedupeStore, store)
    const stage = own.create(dedupePlugin, section)
    const whole = new Pipeline([{ name: 'dedupe', stage }], async (call): Promise<Outcome> => {
      const refused = await controlOf(call).commitHolds()
      if (refused !== undefined) return refused
      sent++
      await during()
      return responded()
    })
    await whole.start()
    return { run: (tool: string) => whole.run(controlOf(keyed({ tool }))), stage, stop: () => whole.stop() }
  }

  it('sends no duplicate of a call that was in flight', async () => {
    const second = await gateway()
    const duplicates: Outcome[] = []
    const first = await gateway({}, async () => {
      await redis.send('FLUSHALL')
      for (const { run } of [second, first]) duplicates.push(await run('send_money'))
    })
    await first.run('send_money')
    expect(duplicates).to.have.length(2)
    for (const outcome of duplicates) {
      expect(outcome).to.include({ kind: 'failed', code: 'STORE_UNAVAILABLE' })
      expect(outcome).to.have.nested.property('headers.retry-after')
    }
    expect(await second.run('send_money')).to.have.nested.property('headers.x-dedupe', 'replay')
    expect(sent).to.equal(1)
    expect(second.stage.health?.()?.reason).to.match(/^the dedupe store has lost its keys/)
    for (const { stop } of [first, second]) await stop()
  })

  it('sends calls that change nothing, and all again when the keys would have ended', async () => {
    const { run, stop } = await gateway({ ttlSec: 60 })
    await run('send_money')
    await redis.send('FLUSHALL')
    expect(await run('send_money')).to.include({ code: 'STORE_UNAVAILABLE' })
    expect(await run('read_balance')).to.include({ kind: 'completed' })
    const spaces = (await redis.send('KEYS', `${PREFIX}*#space`)) as string[]
    for (const space of spaces) await redis.send('HINCRBY', space, 'began', -60_000)
    await advanceRedis(redis, PREFIX, 60_000)
    expect(await run('send_money')).to.include({ kind: 'completed' })
    await stop()
  })

  it('sends them at once if failureMode is open', async () => {
    const { run, stop } = await gateway({ failureMode: 'open' })
    await run('send_money')
    await redis.send('FLUSHALL')
    expect(await run('send_money')).to.include({ kind: 'completed' })
    expect(sent).to.equal(2)
    await stop()
  })
})
