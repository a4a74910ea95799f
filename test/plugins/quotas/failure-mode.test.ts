import { failed, type Limit, type Outcome, type QuotaAdapter, type Stage, tokens } from '@svc/core'
import { MemoryQuotaAdapter, quotasPlugin } from '@svc/plugin-quotas'
import { expect } from 'chai'
import sinon, { type SinonFakeTimers } from 'sinon'
import { StageRig, sendWithHolds } from '../../support/stage-rig.js'
import { countOne, KEY, limited, NOON } from './rig.js'

/** A memory adapter that can be set to fail, or to keep its responses back. */
class WithErrors implements QuotaAdapter {
  memory = new MemoryQuotaAdapter({ now: () => Date.now() })
  mode: 'up' | 'down' | 'silent' = 'up'
  #kept: (() => void)[] = []

  incrDaily(tenant: string, tool: string, limit: number) {
    return this.#response(() => this.memory.incrDaily(tenant, tool, limit))
  }
  takeToken(tenant: string, tool: string, rate: number, burst?: number) {
    return this.#response(() => this.memory.takeToken(tenant, tool, rate, burst))
  }
  refundDaily(tenant: string, tool: string, now?: number) {
    return this.#response(() => this.memory.refundDaily(tenant, tool, now))
  }
  /** Gives the responses that it has kept. */
  speak(): void {
    this.mode = 'up'
    for (const response of this.#kept.splice(0)) response()
  }

  async #response<T>(act: () => Promise<T>): Promise<T> {
    if (this.mode === 'down') throw new Error('connection refused')
    const response = await act()
    if (this.mode === 'silent') await new Promise<void>((resolve) => this.#kept.push(resolve))
    return response
  }
}

describe('quotas: while the store is down', () => {
  let timers: SinonFakeTimers
  let store: WithErrors
  let rig: StageRig

  beforeEach(() => {
    timers = sinon.useFakeTimers({ now: NOON, toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    store = new WithErrors()
    rig = new StageRig()
    rig.bind(tokens.Clock, { now: () => Date.now(), monotonic: () => Date.now() - NOON })
  })

  afterEach(async () => {
    await rig[Symbol.asyncDispose]()
    timers.restore()
  })

  const started = (failure_mode: string): Promise<Stage> =>
    rig.start(quotasPlugin, { adapter: store, failure_mode, timeoutMs: 200 })

  /** A call, and the time that its store has to respond. */
  async function countSilently(stage: Stage, limit?: Partial<Limit>): Promise<Outcome> {
    const outcome = countOne(stage, limit)
    await timers.tickAsync(200)
    return outcome
  }

  const left = async () => {
    const { count } = await store.memory.incrDaily('acme', KEY, 1000)
    await store.memory.refundDaily('acme', KEY)
    return 1000 - (count - 1)
  }

  describe('closed', () => {
    it('refuses limited calls, allows unlimited ones, and allows all as soon as the store is back', async () => {
      const stage = await started('closed')
      store.mode = 'down'
      expect(await countOne(stage)).to.include({ code: 'STORE_UNAVAILABLE' })
      expect(await countOne(stage, { ratePerSec: 1 })).to.include({ code: 'STORE_UNAVAILABLE' })
      expect(await countOne(stage, {})).to.have.property('kind', 'completed')
      store.mode = 'up'
      expect(await countOne(stage)).to.have.property('kind', 'completed')
    })

    it('refuses a call when the store does not respond in time', async () => {
      const stage = await started('closed')
      store.mode = 'silent'
      expect(await countSilently(stage)).to.include({ code: 'STORE_UNAVAILABLE' })
      expect(await countSilently(stage, { ratePerSec: 1 })).to.include({ code: 'STORE_UNAVAILABLE' })
    })

    it('uses the store again after a late response, and refunds its count', async () => {
      const stage = await started('closed')
      store.mode = 'silent'
      await countSilently(stage)
      expect(await left()).to.equal(999)
      expect(stage.health?.()?.reason).to.equal('the quota store does not respond')
      store.speak()
      await timers.tickAsync(0)
      expect(await left()).to.equal(1000)
      expect(stage.health?.()?.reason).to.equal(undefined)
      expect(await countOne(stage)).to.have.property('kind', 'completed')
    })

    it('refunds nothing for a late refusal', async () => {
      const stage = await started('closed')
      await countOne(stage, { callsPerDay: 1 })
      store.mode = 'silent'
      await countSilently(stage, { callsPerDay: 1 })
      store.speak()
      await timers.tickAsync(0)
      expect(await left()).to.equal(999)
    })

    it('logs and counts the failures', async () => {
      const stage = await started('closed')
      store.mode = 'down'
      for (let call = 0; call < 3; call++) await countOne(stage)
      expect(rig.log.lines).to.deep.equal([
        {
          level: 'warn',
          fields: { error: 'connection refused', failures: 1 },
          message: 'the quota store fails: limited calls are refused',
        },
      ])
      await timers.tickAsync(10_000)
      await countOne(stage)
      expect(rig.log.lines[1]?.fields).to.deep.equal({ error: 'connection refused', failures: 3 })
      expect(rig.meter.values.get('svc_quota_store_failures_total')).to.equal(4)
    })
  })

  describe('open', () => {
    it('allows calls uncounted, without headers about limits', async () => {
      const stage = await started('open')
      store.mode = 'down'
      const outcome = await countOne(stage, { callsPerDay: 0, ratePerSec: 1 })
      expect(outcome).to.have.property('kind', 'completed')
      expect(outcome.headers).to.not.have.any.keys('x-quota-remaining', 'x-rate-remaining', 'ratelimit')
      expect(stage.health?.()?.state).to.equal('warning')
    })

    it('allows a call when the store does not respond in time', async () => {
      const stage = await started('open')
      store.mode = 'silent'
      expect(await countSilently(stage)).to.have.property('kind', 'completed')
      store.speak()
      await timers.tickAsync(0)
      // It was served, so its late count stays.
      expect(await left()).to.equal(999)
    })

    it('refuses calls over the limit while the store is up', async () => {
      expect(await countOne(await started('open'), { callsPerDay: 0 })).to.have.property(
        'code',
        'QUOTA_EXCEEDED',
      )
    })

    it('does not change the outcome of a call whose count cannot be refunded', async () => {
      const stage = await started('open')
      const outcome = await sendWithHolds('quotas', stage, limited({ callsPerDay: 5 }), async () => {
        store.mode = 'down'
        return failed('BROKER_UNAVAILABLE', 'no key')
      })
      expect(outcome).to.have.property('code', 'BROKER_UNAVAILABLE')
      expect(rig.log.lines).to.have.lengthOf(1)
    })
  })

  describe('local', () => {
    it('continues in this process from the last known count', async () => {
      const stage = await started('local')
      for (let call = 0; call < 3; call++) await countOne(stage, { callsPerDay: 5 })
      store.mode = 'down'
      const outcomes: Outcome[] = []
      for (let call = 0; call < 3; call++) outcomes.push(await countOne(stage, { callsPerDay: 5 }))
      expect(outcomes.map(({ kind }) => kind)).to.deep.equal(['completed', 'completed', 'denied'])
      expect(outcomes[1]?.headers).to.have.property('x-quota-remaining', '0')
    })

    it('limits the rate with its own buckets', async () => {
      const stage = await started('local')
      store.mode = 'down'
      const limit = { ratePerSec: 1, burst: 2 }
      const outcomes: Outcome[] = []
      for (let call = 0; call < 3; call++) outcomes.push(await countOne(stage, limit))
      expect(outcomes.map(({ kind }) => kind)).to.deep.equal(['completed', 'completed', 'denied'])
      await timers.tickAsync(1000)
      expect(await countOne(stage, limit)).to.have.property('kind', 'completed')
    })

    it('uses the store again when it is back', async () => {
      const stage = await started('local')
      store.mode = 'down'
      await countOne(stage, { callsPerDay: 5 })
      store.mode = 'up'
      await countOne(stage, { callsPerDay: 5 })
      expect(await left()).to.equal(999)
    })

    it('keeps its counts across a reload', async () => {
      store.mode = 'down'
      const old = await started('local')
      await countOne(old, { callsPerDay: 1 })
      const next = await started('local')
      await old.stop?.()
      expect(await countOne(next, { callsPerDay: 1 })).to.have.property('code', 'QUOTA_EXCEEDED')
      await next.stop?.()
      expect(rig.context.resources.size).to.equal(0)
    })

    it('refunds in this process the counts of this process', async () => {
      const stage = await started('local')
      store.mode = 'down'
      const refused = failed('BROKER_UNAVAILABLE', 'no key')
      await sendWithHolds('quotas', stage, limited({ callsPerDay: 1 }), async () => refused)
      expect(await countOne(stage, { callsPerDay: 1 })).to.have.property('kind', 'completed')
    })
  })
})
