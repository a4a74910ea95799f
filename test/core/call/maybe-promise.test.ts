import { attempt, firstResult, isPending, after as onceThere } from '@svc/core'
import { expect } from 'chai'

describe('values that may be promises', () => {
  it('are used at once if they are not promises', async () => {
    expect(onceThere(1, (n) => n + 1)).to.equal(2)
    const later = onceThere(Promise.resolve(1), (n) => n + 1)
    expect(isPending(later)).to.equal(true)
    expect(await later).to.equal(2)
    for (const value of [undefined, null, 0, '', {}]) expect(isPending(value)).to.equal(false)
  })

  it('are replaced if the work throws or rejects', async () => {
    const recover = (error: unknown) => `recovered from ${error}`
    expect(attempt(() => 1, recover)).to.equal(1)
    expect(await attempt(async () => 1, recover)).to.equal(1)
    expect(
      attempt(() => {
        throw 'a throw'
      }, recover),
    ).to.equal('recovered from a throw')
    expect(await attempt(() => Promise.reject('a rejection'), recover)).to.equal('recovered from a rejection')
  })

  for (const [name, wrap] of [
    ['without promises', <T>(value: T) => value],
    ['with promises', async <T>(value: T) => value],
  ] as const) {
    it(`are visited in order until one has a result, ${name}`, async () => {
      const visited: number[] = []
      const found = firstResult([1, 2, 3, 4], (n) => {
        visited.push(n)
        return wrap(n === 3 ? `found ${n}` : undefined)
      })
      expect(isPending(found)).to.equal(name === 'with promises')
      expect(await found).to.equal('found 3')
      expect(visited).to.deep.equal([1, 2, 3])
      expect(await firstResult([], () => wrap(1))).to.equal(undefined)
    })
  }
})
