import { hasPiledUpMarks, normalized } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'

const MARK = '\u0301'

describe('normalization', () => {
  it('equals String.normalize except for long runs of marks', () => {
    const part = fc.constantFrom(
      'e',
      ' ',
      '/',
      MARK,
      '\u0323',
      '\uff76',
      '\uff9e',
      '가',
      '\u11a8',
      '\u{1d160}',
      'ﬃ',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 29 }), fc.constantFrom('NFC', 'NFKC'), (parts, form) => {
        expect(normalized(parts.join(''), form)).to.equal(parts.join('').normalize(form))
      }),
    )
  })

  it('finds long runs in linear time', () => {
    const fastest = (marks: number): number => {
      const text = `e${MARK.repeat(marks)}`.repeat(2 ** 18 / (marks + 1))
      const times = Array.from({ length: 5 }, () => {
        const begun = process.cpuUsage()
        hasPiledUpMarks(text)
        return process.cpuUsage(begun).user
      })
      return Math.min(...times)
    }
    // Trying each mark as the begin of a run takes fifteen times as long.
    expect(fastest(29)).to.be.lessThan(6 * fastest(1))
  })

  it('equals String.normalize between long runs of marks, and keeps every mark', () => {
    const pile = `e${MARK.repeat(100)}`
    const folded = normalized(`ﬃ${pile}ｶﾞ ﬀ`, 'NFKC')
    expect(folded).to.equal(`ffie${MARK.repeat(100)}ガ ff`.replace(`e${MARK}`, 'é'))
  })

  it('counts as piled up more than 30 marks in a row, including those that NFKC makes', () => {
    expect(hasPiledUpMarks(`${MARK.repeat(30)}e${MARK.repeat(30)}`)).to.equal(false)
    expect(hasPiledUpMarks(MARK.repeat(31))).to.equal(true)
    expect(hasPiledUpMarks(`${MARK}\uff9e`.repeat(16))).to.equal(true)
  })
})
