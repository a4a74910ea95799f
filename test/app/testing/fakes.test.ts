import { expect } from 'chai'
import { FakeClock, FakeIds, fakeCall, fakeContext } from 'svc-sdk/testing'

describe('the fake clocks, ids and calls', () => {
  it('advance time only on request, on both clocks alike', () => {
    const clock = new FakeClock(1000)
    expect([clock.now(), clock.monotonic()]).to.deep.equal([1000, 0])
    clock.advance(250)
    expect([clock.now(), clock.monotonic()]).to.deep.equal([1250, 250])
  })

  it('do not go back in time, except for a wall clock that is set', () => {
    const clock = new FakeClock(1000)
    expect(() => clock.advance(-1)).to.throw(RangeError)
    expect(() => clock.advance(Number.NaN)).to.throw(RangeError)
    clock.set(10)
    expect([clock.now(), clock.monotonic()]).to.deep.equal([10, 0])
  })

  it('create ids of the right length that count up', () => {
    const ids = new FakeIds()
    expect([ids.traceId(), ids.traceId()]).to.deep.equal([`${'0'.repeat(31)}1`, `${'0'.repeat(31)}2`])
    expect(ids.spanId()).to.equal(`${'0'.repeat(15)}1`)
  })

  it('create a call whose reference, size and canonical arguments agree', async () => {
    const request = await fakeCall({ tool: 'refund_payment', args: { b: 1, a: 'é' } }).request()
    expect(request).to.include({
      reference: 'mcp://billing/refund_payment@1.0.0',
      canonicalArgs: '{"a":"é","b":1}',
      bytes: 16,
    })
  })

  it('collect the warnings of a plugin', () => {
    const context = fakeContext('/nowhere')
    context.warn('careful')
    expect(context.warnings).to.deep.equal(['careful'])
  })
})
