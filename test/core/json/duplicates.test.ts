import { hasDuplicateMembers } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

const isAmbiguous = (text: string): boolean => hasDuplicateMembers(text, JSON.parse(text))

describe('duplicate members of JSON', () => {
  it('are found at any depth and in any spelling', () => {
    for (const text of [
      '{"a":1,"a":1}',
      '{"a":1,"\\u0061":2}',
      '[0,{"x":{"b":{},"b":{"a":1}}}]',
      '{"__proto__":1,"__proto__":2}',
      '{"":1,"":2}',
      '{"\\"":1,"\\"":2}',
    ]) {
      expect(isAmbiguous(text), text).to.equal(true)
    }
  })

  it('are not found in any JSON of JSON.stringify, however deep or full of colons', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), (text) => {
        expect(isAmbiguous(text)).to.equal(false)
      }),
    )
    for (const text of ['{":":"\\":{","\\\\":1}', '{"__proto__":{"a":1}}', '":"', '7', '{"1":0,"0":1}']) {
      expect(isAmbiguous(text), text).to.equal(false)
    }
    expect(isAmbiguous(`${'[{"a":'.repeat(3_000)}1${'}]'.repeat(3_000)}`)).to.equal(false)
  })
})
