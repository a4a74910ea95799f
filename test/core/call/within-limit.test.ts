import { TimeoutError, withinLimit } from '@svc/core'
import { expect } from 'chai'

const errorOf = (work: Promise<unknown>) => work.then(() => undefined).catch((error: unknown) => error)

describe('a time limit', () => {
  it('ends the wait with an error of its own, which a caller can tell from that of the work', async () => {
    const late = await errorOf(withinLimit('the work', new Promise(() => undefined), 1))
    expect(late).to.be.instanceOf(TimeoutError).and.to.include({
      code: 'TIMEOUT',
      message: 'the work had not ended after 1 ms',
    })
    const failure = new Error('failed')
    expect(await errorOf(withinLimit('the work', Promise.reject(failure), 1))).to.equal(failure)
  })
})
