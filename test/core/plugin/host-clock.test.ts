import { hostClock } from '@svc/core'
import { expect } from 'chai'

describe('the clock of the host', () => {
  it('reads the monotonic clock that all processes of the host share', () => {
    const read = (): number => Number(process.hrtime.bigint()) / 1e6
    for (let i = 0; i < 100; i++) {
      const [before, now, after] = [read(), hostClock.monotonic(), read()]
      expect(now).to.be.within(before, after)
    }
  })
})
