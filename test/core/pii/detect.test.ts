import { detectPii, personalDataKinds, redactPii } from '@svc/core/pii'
import { expect } from 'chai'
import { cpuTimeOf } from '../../support/cpu-time.js'

const text = 'ann@example.com, 555-123-4567, password: x'

describe('detectPii', () => {
  it('gives kind and position of each match, in order', () => {
    expect(detectPii(text)).to.deep.equal([
      { kind: 'email', start: 0, end: 15 },
      { kind: 'phone', start: 17, end: 29 },
      { kind: 'secret', start: 41, end: 42 },
    ])
  })

  it('finds only the kinds that are asked for', () => {
    expect(detectPii(text, ['phone'])).to.deep.equal([{ kind: 'phone', start: 17, end: 29 }])
    expect(detectPii(text, [])).to.deep.equal([])
  })

  it('gives one match where one contains another', () => {
    expect(detectPii('{"token":"for ann@example.com"}')).to.deep.equal([
      { kind: 'secret', start: 9, end: 30, jsonQuote: '"' },
    ])
  })

  it('finds a number at the start of a line that JSON has escaped', () => {
    const found = detectPii('Call:\n555-123-4567').map(({ kind }) => kind)
    expect(detectPii(JSON.stringify('Call:\n555-123-4567')).map(({ kind }) => kind)).to.deep.equal(found)
  })

  it('finds as many matches as there are', () => {
    expect(detectPii('a@b.example '.repeat(150_000))).to.have.length(150_000)
  })
})

describe('redactPii', () => {
  it('puts one text in place of all matches where one is given', () => {
    expect(redactPii(text, { kinds: personalDataKinds, replacement: '$&' })).to.equal('$&, $&, password: x')
  })

  it('leaves valid JSON where a value that is no string is a secret', () => {
    expect(JSON.parse(redactPii('{"pin":1234,"otp":[1],"n":1}'))).to.deep.equal({
      pin: '[redacted]',
      otp: '[redacted]',
      n: 1,
    })
  })

  const size = 80_000
  const parts = 8
  const hostile = [
    'a',
    'a.',
    'a@',
    'a@b.',
    'a@b.c',
    `${'a'.repeat(63)}@`,
    '1',
    '1 ',
    '11 ',
    '111 ',
    '4-',
    '4111 ',
    '4111111111111111a',
    'DE12 ',
    'DE89',
    'DE89 ',
    '123-',
    '123-45-',
    '+1 ',
    '+1(',
    '555-',
    '(555)',
    '"',
    '\\"',
    '\\n',
    '"token":',
    '"token":"',
    '"token":null',
    '"token":[',
    '"a":[',
    '-----BEGIN PRIVATE KEY-----',
    '-----END -----BEGIN PRIVATE KEY-----',
    'x=',
    'token=',
    'token="',
    "token='",
    "token=\\'",
    'token=\\"',
    '--token ',
    '-u a',
    '-u a:',
    'eyJ-',
    'eyJ0eXAiOiJKV1Qi.',
    '://a:',
    'Bearer ',
    'Bearer aB',
    'sk-',
    'Cookie:',
    '\0',
  ]
  for (const piece of hostile) {
    it(`takes time in proportion to the text: ${JSON.stringify(piece)} again and again`, async () => {
      const whole = piece.repeat(Math.ceil(size / piece.length))
      const part = whole.slice(0, size / parts)
      let inParts = Number.POSITIVE_INFINITY
      let atOnce = Number.POSITIVE_INFINITY
      for (let run = 0; run < 3; run++) {
        inParts = Math.min(
          inParts,
          await cpuTimeOf(() => {
            for (let n = 0; n < parts; n++) redactPii(part)
          }),
        )
        atOnce = Math.min(atOnce, await cpuTimeOf(() => redactPii(whole)))
      }
      // The same amount of text: 1 where cost is linear, 8 where it is quadratic. Below 2 ms there is nothing to compare.
      expect(atOnce / Math.max(inParts, 2)).to.be.below(3)
    })
  }
})
