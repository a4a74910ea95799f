import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'

describe('stopping a call', () => {
  it('tells every listener once, with the first reason', () => {
    const call = makeCall()
    const told: unknown[] = []
    call.abortState.addEventListener('abort', () => told.push(call.abortState.reason))
    call.abort('DRAINING', 'first')
    call.abort('INTERNAL', 'second')
    expect(told).to.have.length(1)
    expect(told[0]).to.be.instanceOf(Refusal).with.property('code', 'DRAINING')
  })

  it('tells no listener that was removed', () => {
    const call = makeCall()
    const told: string[] = []
    const listener = () => told.push('removed')
    call.abortState.addEventListener('abort', listener)
    call.abortState.addEventListener('abort', () => told.push('kept'))
    call.abortState.removeEventListener('abort', listener)
    call.abort('DRAINING', 'over')
    expect(told).to.deep.equal(['kept'])
  })

  it('fires an AbortSignal that was asked for before, with the same reason', () => {
    const call = makeCall()
    const { signal } = call
    expect(signal.aborted).to.equal(false)
    call.abort('DRAINING', 'over')
    expect(signal.aborted).to.equal(true)
    expect(signal.reason).to.equal(call.abortState.reason)
  })

  it('gives an AbortSignal that has fired to whoever asks afterwards', () => {
    const call = makeCall()
    call.abort('DRAINING', 'over')
    expect(call.signal.aborted).to.equal(true)
    expect(call.signal.reason).to.have.property('code', 'DRAINING')
  })
})
