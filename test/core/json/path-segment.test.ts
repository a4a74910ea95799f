import { normalize } from 'node:path'
import { pathSegment } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

describe('path segments', () => {
  const tricky = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => text.isWellFormed()),
    fc.string({ unit: fc.constantFrom('.', '/', '\\', '%', '2', 'E', 'a', '\0', 'é', '-'), maxLength: 8 }),
    fc.string({ unit: fc.constantFrom('a', 'b', '/'), minLength: 140, maxLength: 260 }),
  )

  it('of two different ids are always different', () => {
    fc.assert(
      fc.property(tricky, tricky, (left, right) => {
        fc.pre(left !== right)
        expect(pathSegment(left)).not.to.equal(pathSegment(right))
      }),
      { numRuns: 2_000 },
    )
  })

  it('never leave their folder, and are valid file names', () => {
    fc.assert(
      fc.property(tricky, (id) => {
        const segment = pathSegment(id)
        expect(segment).to.match(/^[A-Za-z0-9._%-]+$/)
        expect(normalize(`/a/${segment}/b`)).to.equal(`/a/${segment}/b`)
        expect(`${segment}.ndjson`.length).to.be.at.most(255)
      }),
    )
  })

  for (const [id, segment] of [
    ['node-1', 'node-1'],
    ['.', '%2E'],
    ['..', '%2E%2E'],
    ['', '%'],
    ['a/b', 'a%2Fb'],
    ['../../etc/passwd', '..%2F..%2Fetc%2Fpasswd'],
    ['%2F', '%252F'],
    ['é', '%C3%A9'],
  ] as const) {
    it(`${JSON.stringify(id)} becomes ${segment}`, () => {
      expect(pathSegment(id)).to.equal(segment)
    })
  }

  it('of long ids with the same start are different', () => {
    const long = 'x'.repeat(300)
    expect(pathSegment(`${long}1`)).not.to.equal(pathSegment(`${long}2`))
  })
})
