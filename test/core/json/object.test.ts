import { jsonObjectIn } from '@svc/core/json'
import { expect } from 'chai'

describe('jsonObjectIn', () => {
  it('has the members of an object', () => {
    expect(jsonObjectIn('{"a":[1],"b":null}')).to.deep.equal({ a: [1], b: null })
  })

  for (const text of ['', '{', '[]', '[{}]', 'null', '1', '"{}"', '{} {}']) {
    it(`has nothing of ${JSON.stringify(text)}`, () => {
      expect(jsonObjectIn(text)).to.equal(undefined)
    })
  }
})
