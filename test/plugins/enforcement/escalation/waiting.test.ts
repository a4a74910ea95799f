import { expect } from 'chai'
import { type SinonFakeTimers, useFakeTimers } from 'sinon'
import { FakeClock } from 'svc-sdk/testing'
import { controlOf } from '../../../support/call.js'
import { temporaryDir } from '../../../support/temporary-dir.js'
import {
  caller,
  type EscalationRig,
  idOf,
  reviewer,
  risky,
  startRig,
  summaryOf,
  TestStore,
  TTL,
} from './rig.js'

/** Resolves when somebody waits: the wait has begun to look into the store. */
async function pendingId(rig: EscalationRig): Promise<string> {
  for (;;) {
    const [found] = await rig.service.list({ status: 'pending', limit: 1 })
    if (found !== undefined) return found.id
    await new Promise(setImmediate)
  }
}

const refusalCodeOf = (calling: Promise<unknown>): Promise<unknown> =>
  calling.then(
    () => 'none',
    (error: { readonly code?: unknown }) => error.code,
  )

describe('what waits', () => {
  it('is listed without reading what is decided, and once for all who watch', async () => {
    const store = new TestStore()
    let entries = 0
    const scan = store.scan.bind(store)
    store.scan = async (...given) => {
      const page = await scan(...given)
      entries += page.entries?.length ?? 0
      return page
    }
    await using rig = await startRig({ store })
    const open = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const user = `c${n}@acme.example`
        await rig.call({ caller: { ...caller, user, userId: user }, args: { now: rig.clock.now() } })
        rig.clock.advance(1)
      }
    }
    await open(150)
    rig.clock.advance(TTL)
    expect(await rig.service.list({ isUndecided: true, limit: 999 })).to.deep.equal([])
    await open(5)
    const waiting = { isUndecided: true, first: 'oldest', limit: 3 } as const
    entries = 0
    const ages = (await rig.service.list(waiting)).map(({ createdAt }) => createdAt - rig.clock.now())
    expect(ages).to.deep.equal([-5, -4, -3])
    expect(entries).to.equal(5)
    for (const other of [{ status: 'pending' }, { review: 'open' }] as const) {
      entries = 0
      await rig.service.list({ ...other, limit: 9 })
      expect(entries).to.equal(5)
    }
    entries = 0
    const watching = Array.from({ length: 9 }, () => rig.service.list({ ...waiting, maxAgeMs: 500 }))
    expect((await Promise.all(watching)).flat()).to.have.length(27)
    expect(entries).to.equal(5)
    const [{ id } = { id: '' }] = await rig.service.list(waiting)
    await rig.service.vote(id, reviewer('ann'), { vote: 'reject' })
    expect((await rig.service.list(waiting)).map((one) => one.id)).to.not.include(id)
    const stopped = await rig.service.page({ ...waiting, limit: 9, maxRead: 1 })
    expect(stopped.found).to.have.length(1)
    const rest = await rig.service.page({ ...waiting, limit: 9, maxRead: 99, readUpTo: stopped.readUpTo })
    expect(rest).to.have.property('found').with.length(3)
    rig.clock.advance(500)
    const later = await rig.service.list({ ...waiting, maxAgeMs: 500 })
    expect(later.map((one) => one.id)).to.not.include(id)
  })
})

describe('a caller who waits', () => {
  const headers = { 'x-escalation-wait': '30' }

  it('gets the response of the tool once the call is approved', async () => {
    await using rig = await startRig()
    const calling = rig.call({ headers })
    await rig.service.vote(await pendingId(rig), reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await calling)).to.deep.equal({ code: 'sent' })
    expect(rig.sent).to.have.length(1)
  })

  it('is refused once the call is rejected', async () => {
    await using rig = await startRig()
    const calling = rig.call({ headers })
    const id = await pendingId(rig)
    await rig.service.vote(id, reviewer('ann'), { vote: 'reject' })
    expect(summaryOf(await calling)).to.deep.equal({ code: 'ESCALATION_REJECTED', id, status: 'rejected' })
  })

  it('may wait for an escalation that it names', async () => {
    await using rig = await startRig()
    const id = idOf(await rig.call())
    const calling = rig.call({ headers: { ...headers, 'x-escalation-id': id } })
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('may wait with others for the same escalation, of which one call goes on', async () => {
    await using rig = await startRig()
    const calls = [rig.call({ headers }), rig.call({ headers }), rig.call({ headers })]
    await rig.service.vote(await pendingId(rig), reviewer('ann'), { vote: 'approve' })
    const codes = (await Promise.all(calls)).map((outcome) => summaryOf(outcome).code)
    expect(codes.sort()).to.deep.equal(['ESCALATION_REJECTED', 'ESCALATION_REJECTED', 'sent'])
  })

  it('is refused for reasons that the reviewers did not see', async () => {
    const section = { escalate_on: ['egress_violation', 'fs_violation'] }
    await using rig = await startRig({ section })
    const id = idOf(await rig.call())
    const calling = rig.call({ headers, findings: [risky, { ...risky, reason: 'fs_violation' }] })
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await calling)).to.include({ code: 'ESCALATION_PENDING', id })
    expect(rig.sent).to.deep.equal([])
  })

  it('gets a decision that was made on another gateway', async () => {
    const clock = new FakeClock()
    const store = new TestStore(clock)
    await using here = await startRig({ store, clock })
    await using there = await startRig({ store, clock })
    const calling = here.call({ headers })
    await there.service.vote(await pendingId(there), reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('gets the decision at the time-out', async () => {
    await using rig = await startRig({ rule: { timeoutAction: 'auto_approve' } })
    const calling = rig.call({ headers })
    await pendingId(rig)
    rig.clock.advance(TTL)
    expect(summaryOf(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('ends as cancelled when it has left', async () => {
    await using rig = await startRig()
    const call = rig.make({ headers })
    const calling = rig.through(call, () => Promise.reject(new Error('it is not sent')))
    await pendingId(rig)
    controlOf(call).disconnect()
    expect(await refusalCodeOf(calling)).to.equal('CANCELLED')
  })

  it('is not let through when it left, though the approval came', async () => {
    await using rig = await startRig()
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    const call = rig.make({ headers })
    call.abort('CANCELLED', 'The caller left.')
    const calling = rig.through(call, () => Promise.reject(new Error('it is not sent')))
    expect(await refusalCodeOf(calling)).to.equal('CANCELLED')
    expect(await rig.service.find(id)).to.include({ isUsed: false })
  })

  it('is not let through when it left before the approval', async () => {
    await using rig = await startRig()
    const call = rig.make({ headers })
    controlOf(call).disconnect()
    const calling = rig.through(call, () => Promise.reject(new Error('it is not sent')))
    expect(await refusalCodeOf(calling)).to.equal('CANCELLED')
    const id = await pendingId(rig)
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await rig.service.find(id)).to.include({ isUsed: false })
  })

  for (const wait of ['-1', '1.5', 'long', '1e3', '']) {
    it(`is refused a wait of "${wait}" seconds`, async () => {
      await using rig = await startRig()
      const [call] = await Promise.allSettled([rig.call({ headers: { 'x-escalation-wait': wait } })])
      expect(call).to.have.nested.property('reason.code', 'BAD_REQUEST')
    })
  }

  describe('on a clock of the test', () => {
    let timers: SinonFakeTimers

    beforeEach(() => {
      timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    })

    afterEach(() => timers.restore())

    /** Milliseconds that the call waited for a decision that did not come. */
    async function waited(wait: string, section: object = {}): Promise<number> {
      await using rig = await startRig({ section })
      let isOver = false
      const calling = rig.call({ headers: { 'x-escalation-wait': wait } }).finally(() => {
        isOver = true
      })
      await pendingId(rig)
      const from = timers.now
      while (!isOver) {
        await timers.tickAsync(50)
        await new Promise(setImmediate)
      }
      expect(summaryOf(await calling)).to.include({ code: 'ESCALATION_PENDING' })
      expect(timers.countTimers()).to.equal(0)
      return timers.now - from
    }

    it('is refused as pending when its time is over', async () => {
      expect(await waited('2')).to.be.within(2000, 2050)
    })

    it('waits no longer than the policy allows', async () => {
      expect(await waited('999999999', { escalations: { adapter: 'memory', maxWaitSec: 3 } })).to.be.within(
        3000,
        3050,
      )
    })

    it('does not wait if the policy does not allow it', async () => {
      const section = { escalations: { adapter: 'memory', maxWaitSec: 0 } }
      expect(await waited('5', section)).to.be.within(0, 50)
    })
  })
})

describe('the scheduler', () => {
  let timers: SinonFakeTimers

  beforeEach(() => {
    timers = useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  })

  afterEach(() => timers.restore())

  const expired = (rig: EscalationRig) => rig.events.filter(({ name }) => name === 'escalations/expire')

  it('applies the time-out even if nobody asks', async () => {
    await using rig = await startRig()
    await rig.call()
    await timers.tickAsync(60_000)
    expect(expired(rig)).to.deep.equal([])
    rig.clock.advance(TTL)
    await timers.tickAsync(5000)
    expect(expired(rig)).to.have.length(1)
    await timers.tickAsync(60_000)
    expect(expired(rig)).to.have.length(1)
  })

  it('reminds reviewers even if nobody asks', async () => {
    await using rig = await startRig({ rule: { remindAfterMs: TTL / 2 } })
    await rig.call()
    rig.clock.advance(TTL / 2)
    await timers.tickAsync(5000)
    await timers.tickAsync(60_000)
    expect(rig.notices.map(({ type }) => type)).to.deep.equal(['escalation.opened', 'escalation.reminder'])
  })

  it('retries a decision that could not be recorded', async () => {
    let isDown = true
    await using rig = await startRig({
      record: ({ name }) => {
        if (isDown && name === 'escalations/expire') throw new Error('no log')
      },
    })
    await rig.call()
    rig.clock.advance(TTL)
    await timers.tickAsync(5000)
    expect(expired(rig)).to.deep.equal([])
    isDown = false
    await timers.tickAsync(5000)
    expect(expired(rig)).to.have.length(1)
  })

  it('ends with its stage', async () => {
    const rig = await startRig()
    await rig.stage.stop?.()
    await rig.stage.stop?.()
    expect(timers.countTimers()).to.equal(0)
  })
})

describe('several gateways on one store', () => {
  const dir = temporaryDir()

  const open = (clock: FakeClock) => startRig({ clock, context: { stateDir: dir.path } })

  it('decide each timed-out escalation once', async () => {
    const clock = new FakeClock()
    await using one = await open(clock)
    await using two = await open(clock)
    const ids: string[] = []
    for (let n = 0; n < 10; n++) ids.push(idOf(await one.call({ args: { n } })))
    clock.advance(TTL)
    await Promise.all([one, two, one, two].flatMap(({ service }) => ids.map((id) => service.find(id))))
    const expired = [...one.events, ...two.events].filter(({ name }) => name === 'escalations/expire')
    expect(expired.map(({ escalationId }) => escalationId).sort()).to.deep.equal([...ids].sort())
  })

  it('lose no vote when both get one at the same time, and let one call through', async () => {
    const clock = new FakeClock()
    const rule = { minApprovals: 6 }
    await using one = await startRig({ clock, rule, context: { stateDir: dir.path } })
    await using two = await startRig({ clock, rule, context: { stateDir: dir.path } })
    const id = idOf(await one.call())
    await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        (n % 2 === 0 ? one : two).service.vote(id, reviewer(`r${n}`), { vote: 'approve' }),
      ),
    )
    const found = await two.service.find(id)
    expect(found).to.include({ status: 'approved' })
    expect(found?.votes).to.have.length(6)
    const decided = [...one.events, ...two.events].filter(({ name }) => name === 'escalations/decide')
    expect(decided).to.have.length(1)
    const outcomes = await Promise.all([one.call(), two.call(), one.call(), two.call()])
    expect(outcomes.filter((outcome) => summaryOf(outcome).code === 'sent')).to.have.length(1)
  })

  it('continue the escalations of one that has ended', async () => {
    const clock = new FakeClock()
    const before = await open(clock)
    const id = idOf(await before.call())
    const late = idOf(await before.call({ args: { late: true } }))
    await before.service.vote(id, reviewer('ann'), { vote: 'approve' })
    await before[Symbol.asyncDispose]()
    clock.advance(TTL - 1)
    await using after = await open(clock)
    expect(summaryOf(await after.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({
      code: 'sent',
    })
    clock.advance(1)
    expect(await after.service.find(late)).to.include({ status: 'rejected', decidedBy: 'expiry' })
  })
})
