import { expect } from 'chai'
import sinon from 'sinon'
import { InFlight } from 'svc-sdk/internal/http/in-flight'

describe('InFlight', () => {
  afterEach(() => sinon.restore())

  it('holds the items that were added and not deleted', () => {
    const running = new InFlight<string>()
    const a = running.add('a')
    running.add('b')
    running.delete(a)
    running.add('c')
    expect([...running].sort()).to.deep.equal(['b', 'c'])
  })

  it('is idle at once when nothing runs', async () => {
    await new InFlight().idle(60_000)
  })

  it('is idle when the last one ends, not before', async () => {
    const running = new InFlight<string>()
    const places = [running.add('a'), running.add('b')]
    let isIdle = false
    const idle = running.idle(60_000).then(() => {
      isIdle = true
    })
    running.delete(places[0]!)
    await Promise.resolve()
    expect(isIdle).to.equal(false)
    running.delete(places[1]!)
    await idle
    expect(isIdle).to.equal(true)
  })

  it('waits no longer than its limit', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const running = new InFlight<string>()
    running.add('a')
    const idle = running.idle(5_000)
    await clock.tickAsync(5_000)
    await idle
    expect([...running]).to.deep.equal(['a'])
  })
})
