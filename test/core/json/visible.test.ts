// Which characters of a foreign text are marked: those that nobody sees, or that look like a space.
import { splitAtHidden, visibleInLine } from '@svc/core/json/portable'
import { expect } from 'chai'

const MAX_CODE_POINT = 0x10ffff

describe('hidden characters', () => {
  it('are every default-ignorable one, and every space that is not U+0020', () => {
    const missed: string[] = []
    for (let code = 0; code <= MAX_CODE_POINT; code++) {
      const character = String.fromCodePoint(code)
      if (!/\p{Default_Ignorable_Code_Point}|(?! )\s/u.test(character)) continue
      const isMarked = splitAtHidden(`a${character}b`)[1] === character
      const isEscaped = !visibleInLine(character).includes(character)
      if (!isMarked || !isEscaped) missed.push(code.toString(16))
    }
    expect(missed).to.deep.equal([])
  })

  it('are not letters, marks, digits, punctuation, emoji and the space', () => {
    const text = 'Ünïcödé עברית 日本語 e\u0301 १२३ — “quoted” 🎉 <a&b>'
    expect(splitAtHidden(text)).to.deep.equal([text])
    expect(visibleInLine(text)).to.equal(text)
  })

  it('are escaped as JSON escapes them', () => {
    expect(visibleInLine('a\nb\u{e0061}\u00a0')).to.equal('a\\u000ab\\udb40\\udc61\\u00a0')
  })
})
