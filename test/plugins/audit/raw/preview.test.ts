import { previewOf } from '@svc/plugin-audit/internal/raw/payload-recorder'
import { expect } from 'chai'
import fc from 'fast-check'

const of = (text: string, size: number) => {
  const bytes = Buffer.from(text)
  return previewOf(bytes, bytes.length, size)
}

describe('a preview', () => {
  it('is the whole payload if it is short', () => {
    expect(of('grüße', 100)).to.deep.equal({ text: 'grüße', isTruncated: false })
  })

  it('is cut between characters', () => {
    for (let size = 1; size <= 12; size++) {
      const { text, isTruncated } = of('aé€😀bcd', size)
      expect('aé€😀bcd'.startsWith(text) && !text.includes('\ufffd'), text).to.equal(true)
      expect(isTruncated).to.equal(Buffer.byteLength('aé€😀bcd') > size)
    }
  })

  it('never exceeds its size, for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4_000 }), fc.integer({ min: 16, max: 500 }), (bytes, size) => {
        const { text } = previewOf(bytes, bytes.length, size)
        expect(Buffer.byteLength(text)).to.be.at.most(size)
        expect(text.isWellFormed()).to.equal(true)
      }),
    )
  })

  it('hides a secret that begins inside it and ends outside', () => {
    const secret = `ghp_${'a1B2'.repeat(9)}`
    for (let before = 80; before <= 100; before++) {
      const { text } = of(`${' '.repeat(before)}${secret}${' '.repeat(3_000)}`, 100)
      expect(text).to.not.include('ghp_')
    }
  })

  it('hides a secret that its window cuts, after others were shortened', () => {
    const head = `-----BEGIN PRIVATE KEY-----${'M'.repeat(900)}-----END PRIVATE KEY-----`
    const secret = `ghp_${'a1B2'.repeat(9)}`
    for (let fill = 150; fill < 260; fill += 3) {
      const { text } = of(`${head}${' '.repeat(fill)}${secret}${' '.repeat(3_000)}`, 100)
      expect(text).to.not.include('ghp_')
    }
  })
})
