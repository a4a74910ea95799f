import { denied, failed, Refusal, slot, verdict } from '@svc/core'
import { beginDispatch, refineTarget, settle } from '@svc/core/pipeline'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../support/call.js'

describe('Call', () => {
  it('returns the value of a slot, which can be set once', () => {
    const number = slot<number>('number')
    const call = makeCall()
    expect(call.get(number)).to.equal(undefined)
    call.set(number, 7)
    expect(call.need(number)).to.equal(7)
    expect(() => call.set(number, 8)).to.throw('slot number is already filled')
  })

  it('names a required slot that is empty', () => {
    expect(() => makeCall().need(slot('missing'))).to.throw('slot missing is empty')
  })

  it('refines its target without changing earlier values', () => {
    const call = makeCall()
    const before = call.target
    const { serverVersion } = before
    controlOf(call)[refineTarget]({ serverVersion: '2.0.0' })
    expect(call.target).to.deep.equal({ ...before, serverVersion: '2.0.0' })
    expect(before.serverVersion).to.equal(serverVersion).and.not.equal('2.0.0')
  })

  it('aborts with the given code', () => {
    const call = makeCall()
    call.abort('DURATION_EXCEEDED', 'too long')
    expect(call.signal.reason).to.be.instanceOf(Refusal).and.have.property('code', 'DURATION_EXCEEDED')
  })

  it('allows a reference without a finding of a rule', () => {
    const call = makeCall()
    call.addReferenceRule((reference) =>
      reference.includes('bad') ? { reason: 'x', stage: 's' } : undefined,
    )
    expect(call.mayUse('mcp://s/good@1', 'tool')).to.equal(true)
    expect(call.mayUse('mcp://s/bad@1', 'tool')).to.equal(false)
  })

  it('applies the verdict to references', () => {
    const call = makeCall()
    call.addReferenceRule(() => ({ reason: 'x', stage: 's' }))
    call.set(verdict, { mode: 'observe', effectOf: () => 'would_deny' })
    expect(call.mayUse('mcp://s/t@1', 'tool')).to.equal(true)
  })

  it('allows a request for a reference that only needs an approval', () => {
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

  it('aborts at a drain while it waits for an approval, before or after, and not otherwise', () => {
    const before = makeCall()
    controlOf(before).drain()
    expect(before.abortState.aborted).to.equal(false)
    before.pauseTimeout()
    expect(before.abortState.reason).to.have.property('code', 'DRAINING')
    const during = makeCall()
    during.pauseTimeout()
    controlOf(during).drain()
    expect(during.abortState.aborted).to.equal(true)
    const after = makeCall()
    after.pauseTimeout()()
    controlOf(after).drain()
    expect(after.abortState.aborted).to.equal(false)
  })

  it('resumes when each of several pauses has ended, each once', () => {
    const call = makeCall()
    const seen: boolean[] = []
    call.onTimeoutPause((isPaused) => seen.push(isPaused))
    const [first, second] = [call.pauseTimeout(), call.pauseTimeout()]
    first()
    first()
    expect(seen).to.deep.equal([true])
    controlOf(call).drain()
    expect(call.abortState.reason).to.have.property('code', 'DRAINING')
    second()
    expect(seen).to.deep.equal([true, false])
  })

  it('reports when its timeout pauses and resumes', () => {
    const call = makeCall()
    const seen: boolean[] = []
    call.onTimeoutPause((isWaiting) => seen.push(isWaiting))
    const done = call.pauseTimeout()
    expect(seen).to.deep.equal([true])
    done()
    expect(seen).to.deep.equal([true, false])
  })

  it('stays sent once it was sent, whatever is stated afterwards', async () => {
    const call = controlOf(makeCall())
    call[beginDispatch]()
    await call.commitHolds()
    expect(call.sent).to.equal('unknown')
    call.markSent('no')
    expect(call.sent).to.equal('no')
    call.markSent('yes')
    call.markSent('unknown')
    expect(call.sent).to.equal('yes')
  })

  it('is decided by its findings if it was not refused', () => {
    const effects = { seen: 'reported', banned: 'deny' } as const
    const withFinding = (reason: keyof typeof effects) => {
      const call = makeCall({ findings: [{ reason, stage: 's' }] })
      call.set(verdict, { mode: 'enforce', effectOf: () => effects[reason] })
      return controlOf(call)
    }
    expect(makeCall().decisionFor(undefined)).to.equal('allow')
    expect(withFinding('seen').decisionFor(undefined)).to.equal('allow')
    expect(withFinding('banned').decisionFor(undefined)).to.equal('deny')
    expect(withFinding('seen').decisionFor(denied('RATE_LIMITED', 'slow'))).to.equal('deny')
  })

  it('tells each listener of its abort', () => {
    const call = makeCall()
    const told: string[] = []
    for (const name of ['a', 'b', 'c']) call.abortState.addEventListener('abort', () => void told.push(name))
    call.abort('CANCELLED', 'gone')
    expect(told).to.deep.equal(['a', 'b', 'c'])
  })

  it('commits the last hold after those of the inner stages', async () => {
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
    controlOf(call)[beginDispatch]()
    await controlOf(call).commitHolds()
    expect(log).to.deep.equal(['dedupe', 'quotas', 'audit'])
  })

  it('calls after-settle handlers last, with the error of a failed settle handler', async () => {
    const call = makeCall()
    const seen: string[] = []
    call.onSettle(({ error }) => {
      seen.push(`record ${error}`)
      throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
    })
    call.afterSettle(({ error }) => void seen.push(`after ${error}`))
    call.onSettle(({ error }) => void seen.push(`inner ${error}`))
    const outcome = failed('UPSTREAM_UNREACHABLE', 'gone')
    const settling = controlOf(call)[settle]({
      outcome,
      status: 502,
      sent: 'unknown',
      bytes: 0,
      digest: null,
      error: null,
    })
    expect((await Promise.allSettled([settling]))[0]?.status).to.equal('rejected')
    expect(seen).to.deep.equal(['inner null', 'record null', 'after OUTCOME_UNRECORDED'])
  })

  it('calls disconnect listeners once, and later ones at once', () => {
    const call = makeCall()
    const seen: string[] = []
    call.onDisconnect(() => seen.push('listens'))
    const stay = call.onDisconnect(() => seen.push('listens no more'))
    stay()
    controlOf(call).disconnect()
    controlOf(call).disconnect()
    call.onDisconnect(() => seen.push('comes later'))
    expect(seen).to.deep.equal(['listens', 'comes later'])
    expect(call.abortState.aborted).to.equal(false)
  })
})
