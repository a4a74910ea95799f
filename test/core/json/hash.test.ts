import { Base64Error, fromBase64, parseBase64, sha256Hex, toBase64, writeBase64 } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

describe('sha256Hex', () => {
  it('returns the FIPS 180-4 example digests', () => {
    expect(sha256Hex('abc')).to.equal('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    expect(sha256Hex('')).to.equal('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  })

  it('hashes a string as its UTF-8 bytes', () => {
    expect(sha256Hex('grüße')).to.equal(sha256Hex(new TextEncoder().encode('grüße')))
  })
})

describe('base64', () => {
  it('decodes its own output', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(fromBase64(toBase64(bytes))).to.deep.equal(bytes)
      }),
    )
  })

  it('decodes exactly the texts that the encoder of Node gives', () => {
    const nearly = fc.tuple(
      fc.uint8Array({ maxLength: 12 }),
      fc.nat(15),
      fc.constantFrom('', '=', '+', '/', 'A', '-', ' ', 'é'),
    )
    fc.assert(
      fc.property(nearly, ([bytes, at, other]) => {
        const text = Buffer.from(bytes).toString('base64')
        const changed = text.slice(0, at) + other + text.slice(at + 1)
        const lenient = Buffer.from(changed, 'base64')
        const expected = lenient.toString('base64') === changed ? new Uint8Array(lenient) : undefined
        expect(parseBase64(changed)).to.deep.equal(expected)
        expect(toBase64(bytes)).to.equal(text)
      }),
      { numRuns: 500 },
    )
  })

  it('writes the same text into other bytes, and no more', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(5), (bytes, at) => {
        const text = toBase64(bytes)
        const target = Buffer.alloc(at + text.length + 3, '#')
        expect(writeBase64(bytes, target, at)).to.equal(at + text.length)
        expect(target.toString('latin1')).to.equal(`${'#'.repeat(at)}${text}###`)
      }),
    )
  })

  it('encodes a view, not the buffer under it', () => {
    expect(toBase64(new Uint8Array([1, 2, 3, 4]).subarray(1, 3))).to.equal('AgM=')
  })

  for (const [title, text] of [
    ['missing padding', 'AgM'],
    ['the URL alphabet', '-_8='],
    ['white space', 'Ag M='],
    ['a trailing newline', 'AgM=\n'],
    ['stray trailing bits', 'AgN='],
    ['other characters', '!!!!'],
  ] as const) {
    it(`refuses ${title}`, () => {
      expect(() => fromBase64(text)).to.throw(Base64Error)
    })
  }
})
