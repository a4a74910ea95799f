import { idempotency, type Outcome, Refusal } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import sinon, { type SinonFakeTimers } from 'sinon'
import { controlOf, makeCall } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { explain } from '../../support/stage-rig.js'
import { DedupeRig, keyed, responded, textOf } from './rig.js'

describe('the dedupe stage', () => {
  const rig = ofEachTest(() => new DedupeRig())

  it('does not use the store for a call without a key, nor for other requests than tool calls', async () => {
    const running = await rig.pipeline()
    await running.run(controlOf(makeCall()))
    await running.run(controlOf(keyed({ request: { kind: 'prompt' } })))
    expect(rig.sent).to.equal(2)
    expect(rig.store.asked).to.deep.equal([])
  })

  it('claims, marks directly before the send, and keeps the response, in this order', async () => {
    const order: string[] = []
    const running = await rig.pipeline({}, () => {
      order.push(...rig.store.names, 'sent')
      return responded()
    })
    await running.run(controlOf(keyed()))
    expect(order).to.deep.equal(['claim', 'markSent', 'sent'])
    expect(rig.store.names).to.deep.equal(['claim', 'markSent', 'complete'])
  })

  it('does not send a call when the store fails', async () => {
    rig.store.instead.claim = () => Promise.reject(new Error('it is down'))
    const outcome = await (await rig.pipeline()).run(controlOf(keyed()))
    expect(outcome).to.deep.include({ kind: 'failed', code: 'STORE_UNAVAILABLE' })
    expect(rig.sent).to.equal(0)
  })

  it('refuses new keys of a tenant that has as many as the policy gives it, and sends no call with one', async () => {
    const running = await rig.pipeline({ maxKeysPerTenant: 16 })
    const callWith = (n: number) =>
      running.run(controlOf(keyed({ request: { idempotencyKey: `order-${n % 100}` } })))
    const outcomes: Outcome[] = []
    for (let n = 0; n < 100; n++) outcomes.push(await callWith(n))
    const refused = outcomes.findIndex(({ kind }) => kind === 'denied')
    expect(outcomes[refused]).to.deep.include({ code: 'RATE_LIMITED', headers: { 'retry-after': '60' } })
    expect(rig.sent).to.equal(16)
    // The first call was sent, and its repeat gets its response.
    expect(await callWith(100)).to.deep.include({ kind: 'completed', status: 200 })
    expect(rig.sent).to.equal(16)
  })

  it('does not send a call that cannot be marked, and frees its key', async () => {
    rig.store.instead.markSent = () => Promise.reject(new Error('it is down'))
    const outcome = await (await rig.pipeline()).run(controlOf(keyed()))
    expect(outcome).to.deep.include({ kind: 'denied', code: 'STORE_UNAVAILABLE' })
    expect(rig.sent).to.equal(0)
    expect(rig.store.names).to.deep.equal(['claim', 'markSent', 'release'])
  })

  it('does not send a call whose claim was lost', async () => {
    rig.store.instead.markSent = () => Promise.resolve(false)
    const outcome = await (await rig.pipeline()).run(controlOf(keyed()))
    expect(outcome).to.deep.include({ kind: 'denied', code: 'IDEMPOTENT_DUPLICATE' })
    expect(outcome).to.have.deep.property('headers', { 'retry-after': '1' })
    expect(rig.sent).to.equal(0)
  })

  it('marks the outcome unknown when the record of a call could not be written', async () => {
    const running = await rig.pipeline()
    const call = keyed()
    call.onSettle(() => {
      throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
    })
    expect(await running.run(controlOf(call))).to.deep.include({ kind: 'failed', code: 'OUTCOME_UNRECORDED' })
    expect(rig.store.names).to.deep.equal(['claim', 'markSent', 'markUnknown'])
    expect(await running.run(controlOf(keyed()))).to.deep.include({ code: 'IDEMPOTENT_OUTCOME_UNKNOWN' })
    expect(rig.sent).to.equal(1)
  })

  it('stores the response when an outer stage withholds it, as that stage also withholds the replay', async () => {
    const inner = await rig.pipeline()
    const { stage } = inner.stages[0]!
    const outer = new Pipeline(
      [
        {
          name: 'judge',
          stage: {
            async handle(_call, next) {
              await next()
              return { kind: 'denied', code: 'PAYLOAD_TOO_LARGE', message: 'no' }
            },
          },
        },
        { name: 'dedupe', stage },
      ],
      async (call) => {
        await controlOf(call).commitHolds()
        return responded()
      },
    )
    expect(await outer.run(controlOf(keyed()))).to.include({ code: 'PAYLOAD_TOO_LARGE' })
    expect(rig.store.names).to.deep.equal(['claim', 'markSent', 'complete'])
    expect(textOf(await inner.run(controlOf(keyed())))).to.equal('ran')
  })

  describe('three times in each lease', () => {
    let timers: SinonFakeTimers

    beforeEach(() => {
      timers = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    })

    afterEach(() => timers.restore())

    it('repeats the outcome until the store accepts it', async () => {
      rig.store.instead.complete = () => Promise.reject(new Error('it is down'))
      const running = await rig.pipeline({ leaseSec: 3 })
      expect(textOf(await running.run(controlOf(keyed())))).to.equal('ran')
      await timers.tickAsync(1000)
      delete rig.store.instead.complete
      await timers.tickAsync(2000)
      expect(rig.store.names.filter((name) => name === 'complete')).to.have.length(3)
      expect(textOf(await running.run(controlOf(keyed())))).to.equal('ran')
      expect(rig.sent).to.equal(1)
    })

    it('renews the claim of a call that runs', async () => {
      let end: ((outcome: Outcome) => void) | undefined
      const running = await rig.pipeline({ leaseSec: 3 }, () => new Promise((resolve) => (end = resolve)))
      const first = running.run(controlOf(keyed()))
      await timers.tickAsync(2000)
      end?.(responded())
      await first
      await timers.tickAsync(2000)
      expect(rig.store.names).to.deep.equal(['claim', 'markSent', 'renew', 'renew', 'complete'])
    })
  })

  it('sets the result of the key on the call', async () => {
    const running = await rig.pipeline({ maxResponseKb: 1 }, () => responded('x'.repeat(2000)))
    const calls = [keyed(), keyed(), keyed({ args: { other: true } }), makeCall()]
    for (const call of calls) await running.run(controlOf(call))
    expect(calls.map((call) => call.get(idempotency))).to.deep.equal([
      'first',
      'duplicate',
      undefined,
      undefined,
    ])
    const replayed = keyed({ tool: 'small' })
    const small = await rig.pipeline()
    await small.run(controlOf(keyed({ tool: 'small' })))
    await small.run(controlOf(replayed))
    expect(replayed.get(idempotency)).to.equal('replay')
  })

  it('notes its rule', async () => {
    const running = await rig.pipeline({ ttlSec: 60, duplicatePolicy: 'reject' })
    const { stage } = running.stages[0]!
    expect((await explain(stage, keyed())).lines).to.deep.equal([
      'a call with an idempotency key runs once; a duplicate within 60 s is refused; keys are kept by the bound DedupeStore',
    ])
  })

  it('does not close a bound store', async () => {
    let closed = 0
    Object.assign(rig.store, { close: async () => closed++ })
    const running = await rig.pipeline()
    await running.stop()
    expect(closed).to.equal(0)
  })
})
