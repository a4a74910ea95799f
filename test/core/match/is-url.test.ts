import { isUrl } from '@svc/core/json'
import { expect } from 'chai'

describe('isUrl', () => {
  it('says the same of a URL however often it is asked', () => {
    // V8 compiles the call after some thousand times.
    const wrong = Array.from({ length: 50_000 }, () => isUrl('https://b\u00fccher.example/')).filter(
      (is) => !is,
    )
    expect(wrong).to.have.length(0)
  })

  for (const [text, base, is] of [
    ['https://a.example/', undefined, true],
    ['a', undefined, false],
    ['a', 'https://a.example/', true],
    ['https://', undefined, false],
  ] as const) {
    it(`is ${is} for ${JSON.stringify(text)}${base === undefined ? '' : ` relative to ${base}`}`, () => {
      expect(isUrl(text, base)).to.equal(is)
    })
  }
})
