import { Refusal, slot, verdict } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../support/call.js'

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

  it('stops with the code it was aborted with', () => {
    const call = makeCall()
    call.abort('DURATION_EXCEEDED', 'too long')
    expect(call.signal.reason).to.be.instanceOf(Refusal).and.have.property('code', 'DURATION_EXCEEDED')
  })

  it('lets a reference be used that no rule speaks against', () => {
    const call = makeCall()
    call.rule((reference) => (reference.includes('bad') ? { reason: 'x', stage: 's' } : undefined))
    expect(call.mayUse('mcp://s/good@1', 'tool')).to.equal(true)
    expect(call.mayUse('mcp://s/bad@1', 'tool')).to.equal(false)
  })

  it('judges references by the verdict in force', () => {
    const call = makeCall()
    call.rule(() => ({ reason: 'x', stage: 's' }))
    call.set(verdict, { mode: 'observe', effectOf: () => 'would_deny' })
    expect(call.mayUse('mcp://s/t@1', 'tool')).to.equal(true)
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
})
