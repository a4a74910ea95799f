import { failed, type QuotaAdapter } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import sinon from 'sinon'
import { controlOf } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { served } from '../../support/stage-rig.js'
import { KEY, limited, NOON, QuotasRig, run } from './rig.js'

describe('quotas: when the store fails', () => {
  const rig = ofEachTest(() => new QuotasRig())

  const responses = {
    'incrDaily rejects': { incrDaily: sinon.stub().rejects(new Error('disk gone')) },
    'incrDaily throws': { incrDaily: sinon.stub().throws(new Error('disk gone')) },
    'takeToken rejects': { takeToken: sinon.stub().rejects(new Error('disk gone')) },
    'the count is not a number': { incrDaily: sinon.stub().resolves({ count: Number.NaN, resetAt: NOON }) },
    'the count is 0': { incrDaily: sinon.stub().resolves({ count: 0, resetAt: NOON }) },
    'the count is text': { incrDaily: sinon.stub().resolves({ count: '1', resetAt: NOON }) },
    'there is no response': { incrDaily: sinon.stub().resolves(undefined) },
    'the reset is not an instant': { incrDaily: sinon.stub().resolves({ count: 1, resetAt: 1e300 }) },
    'the reset has no time zone': {
      incrDaily: sinon.stub().resolves({ count: 1, resetAt: '2026-06-16T00:00:00' }),
    },
    'the reset is an invalid date': {
      incrDaily: sinon.stub().resolves({ count: 1, resetAt: new Date('x') }),
    },
    'the tokens are not a number': { takeToken: sinon.stub().resolves({ tokens: undefined, resetAt: NOON }) },
    'the reset of the bucket is missing': { takeToken: sinon.stub().resolves({ tokens: 1 }) },
  }
  for (const [error, broken] of Object.entries(responses)) {
    it(`does not send the call if ${error}`, async () => {
      const adapter = {
        incrDaily: rig.memory.incrDaily.bind(rig.memory),
        takeToken: rig.memory.takeToken.bind(rig.memory),
        ...broken,
      } as QuotaAdapter
      const upstream = sinon.fake.resolves(served)
      const stage = await rig.started(adapter)
      const call = limited({ callsPerDay: 5, ratePerSec: 1 })
      const outcome = await new Pipeline([{ name: 'quotas', stage }], upstream).run(controlOf(call))
      expect(outcome).to.include({ kind: 'failed', code: 'STORE_UNAVAILABLE' })
      expect(outcome).to.have.property('cause').that.is.instanceOf(Error)
      expect(outcome.headers).to.have.property('retry-after', '1')
      expect(upstream.called).to.equal(false)
    })
  }

  for (const [form, written] of [
    ['a Date', (at: number) => new Date(at)],
    ['ISO 8601', (at: number) => new Date(at).toISOString()],
  ] as const) {
    it(`accepts a reset as ${form}`, async () => {
      const refundDaily = sinon.stub().resolves()
      const adapter: QuotaAdapter = {
        incrDaily: async () => ({ count: 1, resetAt: written(NOON + 60_000) }),
        takeToken: async () => ({ tokens: 1, resetAt: written(NOON + 1000) }),
        refundDaily,
      }
      const stage = await rig.started(adapter)
      const limits = { callsPerDay: 5, ratePerSec: 1 }
      const { headers } = await run(stage, limited(limits))
      expect(headers?.['x-quota-reset-at']).to.equal(new Date(NOON + 60_000).toISOString())
      await run(stage, limited(limits), failed('DRAINING', 'bye'))
      expect(refundDaily.firstCall.args[2]).to.equal(NOON + 59_999)
    })
  }

  it('logs that a count could not be refunded', async () => {
    const adapter: QuotaAdapter = {
      incrDaily: (...args) => rig.memory.incrDaily(...args),
      takeToken: (...args) => rig.memory.takeToken(...args),
      refundDaily: sinon.stub().rejects(new Error('disk gone')),
    }
    const outcome = await run(
      await rig.started(adapter),
      limited({ callsPerDay: 5 }),
      failed('DRAINING', 'bye'),
    )
    expect(outcome).to.include({ kind: 'failed', code: 'STORE_UNAVAILABLE' })
  })

  it('refunds the counts of the limits before the one that failed', async () => {
    const incrDaily = sinon.stub().callsFake((...args: Parameters<QuotaAdapter['incrDaily']>) => {
      if (args[1] !== KEY) throw new Error('disk gone')
      return rig.memory.incrDaily(...args)
    })
    const adapter: QuotaAdapter = {
      incrDaily,
      takeToken: (...args) => rig.memory.takeToken(...args),
      refundDaily: (...args) => rig.memory.refundDaily(...args),
    }
    await run(await rig.started(adapter), limited({ callsPerDay: 100 }, { key: 'other', callsPerDay: 1 }))
    expect(await rig.remaining(KEY)).to.equal(100)
  })
})
