import { detectPii, personalDataKinds, redactPii } from '@svc/core/pii'
import { expect } from 'chai'

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

  it('gives one match if one contains another', () => {
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
  it('puts one text in place of all matches if one is given', () => {
    expect(redactPii(text, { kinds: personalDataKinds, replacement: '$&' })).to.equal('$&, $&, password: x')
  })

  it('leaves valid JSON if a secret is a number or a list', () => {
    expect(JSON.parse(redactPii('{"pin":1234,"otp":[1],"n":1}'))).to.deep.equal({
      pin: '[redacted]',
      otp: '[redacted]',
      n: 1,
    })
  })

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
  // Linear patterns take some 50 ms for such a text; quadratic ones take over ten seconds.
  it('redacts hostile texts of 200,000 characters within seconds', () => {
    for (const piece of hostile) {
      const text = piece.repeat(Math.ceil(200_000 / piece.length))
      const begun = performance.now()
      redactPii(text)
      expect(performance.now() - begun, JSON.stringify(piece)).to.be.below(5000)
    }
  })
})
