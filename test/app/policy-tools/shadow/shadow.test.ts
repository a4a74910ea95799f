import { denied, identity, type Outcome, verdict } from '@svc/core'
import { expect } from 'chai'
import { Sampling, Shadow } from 'svc-sdk/internal/policy-tools/shadow/shadow'
import { FakeClock } from 'svc-sdk/testing'
import { makeCall } from '../../../support/call.js'
import { Chance } from '../../../support/chance.js'
import { keepingLogger } from '../../../support/logger.js'
import { until } from '../../../support/redis.js'

const traceOf = (chance: Chance) =>
  chance
    .int(0, 2 ** 32 - 1)
    .toString(16)
    .padStart(32, '0')

describe('the sampling of a shadow policy', () => {
  it('judges every call while that costs less than its part of a core', () => {
    const clock = new FakeClock()
    const sampling = new Sampling(clock, 0.05)
    const chance = new Chance(1)
    for (let call = 0; call < 1_000; call++) {
      clock.advance(10)
      expect(sampling.choose(traceOf(chance))).to.equal(true)
      sampling.spent(0.4)
    }
  })

  it('stays within its part, spreads over the time, and keeps a trace together', () => {
    const clock = new FakeClock()
    const sampling = new Sampling(clock, 0.05)
    const chance = new Chance(2)
    const judged: number[] = []
    for (let call = 0; call < 10_000; call++) {
      clock.advance(1)
      const trace = traceOf(chance)
      if (!sampling.choose(trace)) continue
      // Its other calls, within the same window, are chosen too as long as there is time.
      sampling.spent(1)
      judged.push(clock.monotonic())
    }
    // 1,000 calls a second that cost 1 ms each: 50 of them.
    expect(judged.length).to.be.within(350, 510)
    const afterFirst = judged.filter((at) => at > 2_000)
    const gaps = afterFirst.slice(1).map((at, i) => at - (afterFirst[i] ?? 0))
    expect(Math.max(...gaps)).to.be.lessThan(500)
  })
})

describe('a shadow policy', () => {
  const callWith = (ended: Outcome) => {
    const call = makeCall({ caller: { tenant: 'acme' } })
    call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
    return { call, ended }
  }
  const served: Outcome = { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() }

  const shadowOf = (judge: () => Promise<{ decision: 'allow' | 'deny' }>, report = async () => undefined) => {
    const logger = keepingLogger()
    const shadow = new Shadow(
      {
        sha256: 'x',
        stages: new Set(['rules']),
        later: new Set(['quotas']),
        judge,
        close: async () => undefined,
      },
      { clock: new FakeClock(), logger, maxShare: 1, count: () => undefined, report },
    )
    return { shadow, logger }
  }

  it('that throws is counted, logged once, and reaches no caller', async () => {
    const { shadow, logger } = shadowOf(() => Promise.reject(new Error('broken')))
    for (let call = 0; call < 3; call++) {
      const { call, ended } = callWith(served)
      await call.request()
      shadow.offer(call, ended)
    }
    await until(async () => shadow.status.failed === 3)
    expect(shadow.status).to.include({ judged: 0, of: 3, different: 0 })
    expect(logger.lines).to.have.length(1)
    await shadow.close()
  })

  it('whose differences cannot be recorded goes on', async () => {
    const { shadow, logger } = shadowOf(
      async () => ({ decision: 'deny' }),
      () => Promise.reject(new Error('ENOSPC')),
    )
    const { call, ended } = callWith(served)
    await call.request()
    shadow.offer(call, ended)
    await until(async () => shadow.status.different === 1)
    await shadow.close()
    expect(logger.lines.map(({ message }) => message)).to.deep.equal([
      'the differences of the shadow policy could not be recorded',
    ])
  })

  it('leaves out calls that were decided by what it does not run, or that have no caller', async () => {
    const { shadow } = shadowOf(async () => ({ decision: 'allow' }))
    const byOther = denied('TOOL_NOT_ALLOWED', 'no', { denial: { type: 'custom', reason: 'x' } })
    const { call } = callWith(byOther)
    await call.request()
    Object.defineProperty(call, 'endedBy', { value: 'custom' })
    shadow.offer(call, byOther)
    const stranger = makeCall({})
    await stranger.request()
    if (stranger.get(identity) === undefined) shadow.offer(stranger, served)
    await shadow.close()
    expect(shadow.status.of).to.equal(0)
  })
})
