import { parseJsonObject } from '@svc/core/json'
import { expect } from 'chai'

describe('parseJsonObject', () => {
  it('returns the members of an object', () => {
    expect(parseJsonObject('{"a":[1],"b":null}')).to.deep.equal({ a: [1], b: null })
  })

  for (const text of ['', '{', '[]', '[{}]', 'null', '1', '"{}"', '{} {}']) {
    it(`returns undefined for ${JSON.stringify(text)}`, () => {
      expect(parseJsonObject(text)).to.equal(undefined)
    })
  }
})
