import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryEscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { type SinonFakeTimers, useFakeTimers } from 'sinon'
import { FakeClock } from 'svc-sdk/testing'
import { idOf, type Office, openOffice, reviewer, risky, TTL, told } from './office.js'

/** Resolves when somebody waits: the wait has begun to look into the store. */
async function pendingId(office: Office): Promise<string> {
  for (;;) {
    const [found] = await office.desk.list({ status: 'pending', limit: 1 })
    if (found !== undefined) return found.id
    await new Promise(setImmediate)
  }
}

describe('a caller who waits', () => {
  const headers = { 'x-escalation-wait': '30' }

  it('is answered when it is approved: the call goes on', async () => {
    await using office = await openOffice()
    const calling = office.call({ headers })
    await office.desk.vote(await pendingId(office), reviewer('ann'), { vote: 'approve' })
    expect(told(await calling)).to.deep.equal({ code: 'sent' })
    expect(office.sent).to.have.length(1)
  })

  it('is answered when it is rejected', async () => {
    await using office = await openOffice()
    const calling = office.call({ headers })
    const id = await pendingId(office)
    await office.desk.vote(id, reviewer('ann'), { vote: 'reject' })
    expect(told(await calling)).to.deep.equal({ code: 'ESCALATION_REJECTED', id, status: 'rejected' })
  })

  it('may wait for an escalation that it names', async () => {
    await using office = await openOffice()
    const id = idOf(await office.call())
    const calling = office.call({ headers: { ...headers, 'x-escalation-id': id } })
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(told(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('is one of several who wait for the same: one call goes on', async () => {
    await using office = await openOffice()
    const calls = [office.call({ headers }), office.call({ headers }), office.call({ headers })]
    await office.desk.vote(await pendingId(office), reviewer('ann'), { vote: 'approve' })
    const codes = (await Promise.all(calls)).map((outcome) => told(outcome).code)
    expect(codes.sort()).to.deep.equal(['ESCALATION_REJECTED', 'ESCALATION_REJECTED', 'sent'])
  })

  it('is not let through for more than people saw', async () => {
    const section = { escalate_on: ['egress_violation', 'fs_violation'] }
    await using office = await openOffice({ section })
    const id = idOf(await office.call())
    const calling = office.call({ headers, findings: [risky, { ...risky, reason: 'fs_violation' }] })
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(told(await calling)).to.include({ code: 'ESCALATION_PENDING', id })
    expect(office.sent).to.deep.equal([])
  })

  it('hears of a decision that another gateway took', async () => {
    const store = new MemoryEscalationStore()
    const clock = new FakeClock()
    await using here = await openOffice({ store, clock })
    await using there = await openOffice({ store, clock })
    const calling = here.call({ headers })
    await there.desk.vote(await pendingId(there), reviewer('ann'), { vote: 'approve' })
    expect(told(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('hears of the end of the time', async () => {
    await using office = await openOffice({ rule: { timeoutAction: 'auto_approve' } })
    const calling = office.call({ headers })
    await pendingId(office)
    office.clock.advance(TTL)
    expect(told(await calling)).to.deep.equal({ code: 'sent' })
  })

  it('is told that nobody has decided when it has left', async () => {
    await using office = await openOffice()
    const call = office.make({ headers })
    const calling = office.through(call, () => Promise.reject(new Error('it is not sent')))
    const id = await pendingId(office)
    call.disconnect()
    expect(told(await calling)).to.deep.equal({ code: 'ESCALATION_PENDING', id, status: 'pending' })
  })

  it('is not let through when it left, though the approval came', async () => {
    await using office = await openOffice()
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    const call = office.make({ headers })
    call.abort('UPSTREAM_UNREACHABLE', 'The caller left.')
    const outcome = await office.through(call, () => Promise.reject(new Error('it is not sent')))
    expect(told(outcome)).to.deep.equal({ code: 'ESCALATION_PENDING', id, status: 'approved' })
    expect(await office.desk.find(id)).to.include({ isUsed: false })
  })

  it('is not let through when it left before the approval', async () => {
    await using office = await openOffice()
    const call = office.make({ headers })
    call.disconnect()
    const outcome = await office.through(call, () => Promise.reject(new Error('it is not sent')))
    await office.desk.vote(idOf(outcome), reviewer('ann'), { vote: 'approve' })
    expect(await office.desk.find(idOf(outcome))).to.include({ isUsed: false })
  })

  for (const wait of ['-1', '1.5', 'long', '1e3', '']) {
    it(`is refused a wait of "${wait}" seconds`, async () => {
      await using office = await openOffice()
      const [call] = await Promise.allSettled([office.call({ headers: { 'x-escalation-wait': wait } })])
      expect(call).to.have.nested.property('reason.code', 'BAD_REQUEST')
    })
  }

  describe('on a clock of the test', () => {
    let timers: SinonFakeTimers

    beforeEach(() => {
      timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    })

    afterEach(() => timers.restore())

    /** How long the call waited, in milliseconds, for nobody. */
    async function waited(wait: string, section: object = {}): Promise<number> {
      await using office = await openOffice({ section })
      let isOver = false
      const calling = office.call({ headers: { 'x-escalation-wait': wait } }).finally(() => {
        isOver = true
      })
      await pendingId(office)
      const from = timers.now
      while (!isOver) {
        await timers.tickAsync(50)
        await new Promise(setImmediate)
      }
      expect(told(await calling)).to.include({ code: 'ESCALATION_PENDING' })
      expect(timers.countTimers()).to.equal(0)
      return timers.now - from
    }

    it('is answered when its time is over', async () => {
      expect(await waited('2')).to.be.within(2000, 2050)
    })

    it('waits no longer than the policy lets it', async () => {
      expect(await waited('999999999', { escalations: { adapter: 'memory', max_wait_sec: 3 } })).to.be.within(
        3000,
        3050,
      )
    })

    it('does not wait where the policy does not let it', async () => {
      const section = { escalations: { adapter: 'memory', max_wait_sec: 0 } }
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

  const expired = (office: Office) => office.events.filter(({ name }) => name === 'escalations/expire')

  it('decides what the time has decided, though nobody looks', async () => {
    await using office = await openOffice()
    await office.call()
    await timers.tickAsync(60_000)
    expect(expired(office)).to.deep.equal([])
    office.clock.advance(TTL)
    await timers.tickAsync(5000)
    expect(expired(office)).to.have.length(1)
    await timers.tickAsync(60_000)
    expect(expired(office)).to.have.length(1)
  })

  it('tries again what could not be recorded', async () => {
    let isDown = true
    await using office = await openOffice({
      record: ({ name }) => {
        if (isDown && name === 'escalations/expire') throw new Error('no log')
      },
    })
    await office.call()
    office.clock.advance(TTL)
    await timers.tickAsync(5000)
    expect(expired(office)).to.deep.equal([])
    isDown = false
    await timers.tickAsync(5000)
    expect(expired(office)).to.have.length(1)
  })

  it('ends with its stage', async () => {
    const office = await openOffice()
    await office.stage.stop?.()
    await office.stage.stop?.()
    expect(timers.countTimers()).to.equal(0)
  })
})

describe('several gateways on one store', () => {
  let dir: string

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'svc-escalations-'))
  })

  afterEach(() => rmSync(dir, { recursive: true }))

  const open = (clock: FakeClock) => openOffice({ clock, context: { stateDir: dir } })

  it('decide each escalation whose time is over once', async () => {
    const clock = new FakeClock()
    await using one = await open(clock)
    await using two = await open(clock)
    const ids: string[] = []
    for (let n = 0; n < 10; n++) ids.push(idOf(await one.call({ args: { n } })))
    clock.advance(TTL)
    await Promise.all([one, two, one, two].flatMap(({ desk }) => ids.map((id) => desk.find(id))))
    const expired = [...one.events, ...two.events].filter(({ name }) => name === 'escalations/expire')
    expect(expired.map(({ escalationId }) => escalationId).sort()).to.deep.equal([...ids].sort())
  })

  it('lose no vote that is cast at once on both, and let one call through', async () => {
    const clock = new FakeClock()
    const rule = { minApprovals: 6 }
    await using one = await openOffice({ clock, rule, context: { stateDir: dir } })
    await using two = await openOffice({ clock, rule, context: { stateDir: dir } })
    const id = idOf(await one.call())
    await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        (n % 2 === 0 ? one : two).desk.vote(id, reviewer(`r${n}`), { vote: 'approve' }),
      ),
    )
    const found = await two.desk.find(id)
    expect(found).to.include({ status: 'approved' })
    expect(found?.votes).to.have.length(6)
    const decided = [...one.events, ...two.events].filter(({ name }) => name === 'escalations/decide')
    expect(decided).to.have.length(1)
    const outcomes = await Promise.all([one.call(), two.call(), one.call(), two.call()])
    expect(outcomes.filter((outcome) => told(outcome).code === 'sent')).to.have.length(1)
  })

  it('go on where one that has ended left off', async () => {
    const clock = new FakeClock()
    const before = await open(clock)
    const id = idOf(await before.call())
    const late = idOf(await before.call({ args: { late: true } }))
    await before.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    await before[Symbol.asyncDispose]()
    clock.advance(TTL - 1)
    await using after = await open(clock)
    expect(told(await after.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({ code: 'sent' })
    clock.advance(1)
    expect(await after.desk.find(late)).to.include({ status: 'rejected', decidedBy: 'expiry' })
  })
})
