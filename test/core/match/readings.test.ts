import { pathReadings, ReferenceInputError } from '@svc/core/match'
import { expect } from 'chai'

const readingsOf = (tool: string, version = '1.0') => pathReadings({ server: 's', tool, version })

describe('readings of a name in a path', () => {
  for (const [tool, readings] of [
    ['refund', []],
    ['@acme/refund', []],
    ['refund@2.0', ['refund@2.0%401.0', 'refund@2.0', 'refund@1.0']],
    ['refund\uff20x', ['refund@x%401.0', 'refund@x', 'refund@1.0']],
    ['@a/b@c', ['%40a%2Fb@c%401.0', '%40a%2Fb@c', '%40a%2Fb@1.0']],
    ['a@', ['a@%401.0', 'a@', 'a@1.0']],
    ['a@b@c', ['a@b%40c%401.0', 'a@b', 'a@c', 'a@1.0', 'a%40b@c%401.0', 'a%40b@c', 'a%40b@1.0']],
  ] as const) {
    it(`of ${JSON.stringify(tool)} are ${readings.join(', ') || 'none but itself'}`, () => {
      expect(readingsOf(tool)).to.deep.equal(readings.map((path) => `mcp://s/${path}`))
    })
  }

  for (const [what, tool] of [
    ['with more than four at signs', 'a@b@c@d@e@f'],
    ['with a part that would be a segment of dots', 'x/..@y'],
  ] as const) {
    it(`of a name ${what} are refused`, () => {
      expect(() => readingsOf(tool)).to.throw(ReferenceInputError)
    })
  }
})
