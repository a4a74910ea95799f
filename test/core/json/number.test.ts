import {
  canonicalizeExact,
  compareNumbers,
  isMultipleOf,
  JsonNumber,
  parseJsonText,
  stringifyJson,
} from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

const digits = fc.stringMatching(/^[0-9]{1,25}$/)
/** Numbers of RFC 8259. */
const token = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.stringMatching(/^(?:0|[1-9][0-9]{0,25})$/),
    fc.option(digits),
    fc.option(fc.integer({ min: -420, max: 420 })),
  )
  .map(
    ([sign, whole, fraction, power]) =>
      `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${power === null ? '' : `e${power}`}`,
  )

describe('a number of JSON', () => {
  it('is written as it was read, at any place of a value and with any indentation', () => {
    fc.assert(
      fc.property(fc.array(token, { minLength: 1 }), fc.string(), (numbers, name) => {
        const text = `{${JSON.stringify(`x${name}`)}:[${numbers.join(',')}],"b":{"c":${numbers[0]},"__proto__":"1.0"}}`
        const value = parseJsonText(text)
        expect(stringifyJson(value)).to.equal(text)
        expect(stringifyJson(parseJsonText(stringifyJson(value, 2)))).to.equal(text)
      }),
    )
  })

  it('has the canonical form of RFC 8785 if a double represents it, and else all its digits', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (double) => {
        const written = double.toExponential()
        expect(canonicalizeExact(parseJsonText(written))).to.deep.equal({
          text: String(double),
          range: 'double',
        })
      }),
    )
    for (const [text, canonical, range] of [
      ['9007199254740993', '9007199254740993', 'exact'],
      ['123456789012345678901234', '1.23456789012345678901234e+23', 'exact'],
      ['-0.00000012345', '-1.2345e-7', 'double'],
      ['1e-400', '1e-400', 'exact'],
      ['1e400', '1e+400', 'overflow'],
      ['-0.0e5', '0', 'double'],
    ] as const)
      expect(canonicalizeExact(parseJsonText(text)), text).to.deep.equal({ text: canonical, range })
  })

  it('is ordered, and divided, by its decimal', () => {
    const value = fc.tuple(
      fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
      fc.integer({ min: -5, max: 5 }),
    )
    const number = ([mantissa, power]: [bigint, number]) => new JsonNumber(`${mantissa}e${power}`)
    const scaled = ([mantissa, power]: [bigint, number]) => mantissa * 10n ** BigInt(power + 5)
    fc.assert(
      fc.property(value, value, (a, b) => {
        const difference = scaled(a) - scaled(b)
        expect(Math.sign(compareNumbers(number(a), number(b)))).to.equal(
          difference > 0n ? 1 : difference < 0n ? -1 : 0,
        )
        expect(compareNumbers(number(a), new JsonNumber(String(number(a)).replace('e', '.00e')))).to.equal(0)
        if (b[0] !== 0n) expect(isMultipleOf(number(a), number(b))).to.equal(scaled(a) % scaled(b) === 0n)
      }),
    )
  })

  it('in JSON of JavaScript values is a double, or a string if none represents it', () => {
    expect(JSON.stringify(parseJsonText('[1.0,1e2,9007199254740993]'))).to.equal('[1,100,"9007199254740993"]')
  })
})
