import { failed, Refusal, slot, verdict } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'

describe('Call', () => {
  it('gives a slot back as it was set, once', () => {
    const number = slot<number>('number')
    const call = makeCall()
    expect(call.get(number)).to.equal(undefined)
    call.set(number, 7)
    expect(call.need(number)).to.equal(7)
    expect(() => call.set(number, 8)).to.throw('slot number is already filled')
  })

  it('names the slot that is needed and empty', () => {
    expect(() => makeCall().need(slot('missing'))).to.throw('slot missing is empty')
  })

  it('refines its target by a new value, and changes none that was read before', () => {
    const call = makeCall()
    const before = call.target
    const { serverVersion } = before
    call.refineTarget({ serverVersion: '2.0.0' })
    expect(call.target).to.deep.equal({ ...before, serverVersion: '2.0.0' })
    expect(before.serverVersion).to.equal(serverVersion).and.not.equal('2.0.0')
  })

  it('stops with the code it was aborted with', () => {
    const call = makeCall()
    call.abort('DURATION_EXCEEDED', 'too long')
    expect(call.signal.reason).to.be.instanceOf(Refusal).and.have.property('code', 'DURATION_EXCEEDED')
  })

  it('lets a reference be used that no rule speaks against', () => {
    const call = makeCall()
    call.addReferenceRule((reference) =>
      reference.includes('bad') ? { reason: 'x', stage: 's' } : undefined,
    )
    expect(call.mayUse('mcp://s/good@1', 'tool')).to.equal(true)
    expect(call.mayUse('mcp://s/bad@1', 'tool')).to.equal(false)
  })

  it('judges references by the verdict in force', () => {
    const call = makeCall()
    call.addReferenceRule(() => ({ reason: 'x', stage: 's' }))
    call.set(verdict, { mode: 'observe', effectOf: () => 'would_deny' })
    expect(call.mayUse('mcp://s/t@1', 'tool')).to.equal(true)
  })

  it('lets people be asked for what only they stand in the way of', () => {
    const call = makeCall()
    const effects = { held: 'escalate', banned: 'deny', seen: 'reported' } as const
    for (const [name, reason] of Object.entries({ held: 'held', banned: 'held', seen: 'seen' })) {
      call.addReferenceRule((reference) => (reference.includes(name) ? { reason, stage: 's' } : undefined))
    }
    call.addReferenceRule((reference) =>
      reference.includes('banned') ? { reason: 'banned', stage: 's' } : undefined,
    )
    const effectOf = (reason: string) => effects[reason as keyof typeof effects]
    call.set(verdict, { mode: 'enforce', effectOf })
    const said = (name: string) => [
      call.mayUse(`mcp://s/${name}@1`, 'tool'),
      call.mayRequest(`mcp://s/${name}@1`, 'tool'),
    ]
    expect(said('held')).to.deep.equal([false, true])
    expect(said('banned')).to.deep.equal([false, false])
    expect(said('seen')).to.deep.equal([true, true])
  })

  it('stops when it is hurried while it waits for people, before or after, and not otherwise', () => {
    const before = makeCall()
    before.drain()
    expect(before.abortState.aborted).to.equal(false)
    before.pauseTimeout()
    expect(before.abortState.reason).to.have.property('code', 'DRAINING')
    const during = makeCall()
    during.pauseTimeout()
    during.drain()
    expect(during.abortState.aborted).to.equal(true)
    const after = makeCall()
    after.pauseTimeout()()
    after.drain()
    expect(after.abortState.aborted).to.equal(false)
  })

  it('tells when waiting for people begins and ends', () => {
    const call = makeCall()
    const told: boolean[] = []
    call.onTimeoutPause((isWaiting) => told.push(isWaiting))
    const done = call.pauseTimeout()
    expect(told).to.deep.equal([true])
    done()
    expect(told).to.deep.equal([true, false])
  })

  it('commits the hold that is to be last after those of the stages inside it', async () => {
    const call = makeCall()
    const log: string[] = []
    const hold = (name: string, isLast?: true) => ({
      commit: () => void log.push(name),
      release: () => undefined,
      ...(isLast === undefined ? {} : { isLast }),
    })
    call.hold(hold('audit', true))
    call.hold(hold('dedupe'))
    call.hold(hold('quotas'))
    await call.commitHolds()
    expect(log).to.deep.equal(['dedupe', 'quotas', 'audit'])
  })

  it('tells after-settle handlers last, whenever they were added, with what a fault made of the call', async () => {
    const call = makeCall()
    const told: string[] = []
    call.onSettle(({ error }) => {
      told.push(`record ${error}`)
      throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
    })
    call.afterSettle(({ error }) => void told.push(`after ${error}`))
    call.onSettle(({ error }) => void told.push(`inner ${error}`))
    const outcome = failed('UPSTREAM_UNREACHABLE', 'gone', { sent: 'unknown' })
    const settling = call.settle({
      outcome,
      status: 502,
      sent: 'unknown',
      bytes: 0,
      digest: null,
      error: null,
    })
    expect((await Promise.allSettled([settling]))[0]?.status).to.equal('rejected')
    expect(told).to.deep.equal(['inner null', 'record null', 'after OUTCOME_UNRECORDED'])
  })

  it('tells that the caller has gone to those who listen, once, and at once to those who come later', () => {
    const call = makeCall()
    const told: string[] = []
    call.onDisconnect(() => told.push('listens'))
    const stay = call.onDisconnect(() => told.push('listens no more'))
    stay()
    call.disconnect()
    call.disconnect()
    call.onDisconnect(() => told.push('comes later'))
    expect(told).to.deep.equal(['listens', 'comes later'])
    expect(call.abortState.aborted).to.equal(false)
  })
})
