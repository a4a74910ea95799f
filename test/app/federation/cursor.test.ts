import { expect } from 'chai'
import fc from 'fast-check'
import { pageOf } from 'svc-sdk/internal/federation/respond-to-request'
import { propertyRuns } from '../../support/property-runs.js'

const self = (name: string): string => name

describe('the pages of a list of several servers', () => {
  it('have each entry once, in its order', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string()), fc.integer({ min: 1, max: 5 }), (entries, size) => {
        const read: string[] = []
        let cursor: string | undefined
        do {
          const { page, nextCursor } = pageOf(entries, cursor, self, size)
          read.push(...page)
          cursor = nextCursor
        } while (cursor !== undefined)
        expect(read).to.deep.equal(entries)
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  it('continue after the last entry of the previous page if the list has changed', () => {
    const { nextCursor } = pageOf(['a', 'b', 'c', 'd'], undefined, self, 2)
    expect(pageOf(['new', 'a', 'b', 'c', 'd'], nextCursor, self).page).to.deep.equal(['c', 'd'])
    expect(pageOf(['a', 'c', 'd'], nextCursor, self).page).to.deep.equal(['d'])
  })

  it('refuse text that is not a cursor', () => {
    for (const cursor of ['', 'x', 7, null, Buffer.from('{"after":"a","at":-1}').toString('base64url')]) {
      expect(() => pageOf(['a'], cursor, self), String(cursor)).to.throw('cursor: not one of this list.')
    }
  })
})
