import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'

describe('aborting a call', () => {
  it('calls every listener once, with the first reason', () => {
    const call = makeCall()
    const seen: unknown[] = []
    call.abortState.addEventListener('abort', () => seen.push(call.abortState.reason))
    call.abort('DRAINING', 'first')
    call.abort('INTERNAL', 'second')
    expect(seen).to.have.length(1)
    expect(seen[0]).to.be.instanceOf(Refusal).with.property('code', 'DRAINING')
  })

  it('does not call a removed listener', () => {
    const call = makeCall()
    const seen: string[] = []
    const listener = () => seen.push('removed')
    call.abortState.addEventListener('abort', listener)
    call.abortState.addEventListener('abort', () => seen.push('kept'))
    call.abortState.removeEventListener('abort', listener)
    call.abort('DRAINING', 'over')
    expect(seen).to.deep.equal(['kept'])
  })

  it('aborts an AbortSignal that was created before, with the same reason', () => {
    const call = makeCall()
    const { signal } = call
    expect(signal.aborted).to.equal(false)
    call.abort('DRAINING', 'over')
    expect(signal.aborted).to.equal(true)
    expect(signal.reason).to.equal(call.abortState.reason)
  })

  it('returns an aborted AbortSignal afterwards', () => {
    const call = makeCall()
    call.abort('DRAINING', 'over')
    expect(call.signal.aborted).to.equal(true)
    expect(call.signal.reason).to.have.property('code', 'DRAINING')
  })
})
