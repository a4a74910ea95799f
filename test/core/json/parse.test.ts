import { JsonInputError, parseJson } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

const bytesOf = (text: string) => new TextEncoder().encode(text)

function refusal(input: string | Uint8Array): JsonInputError {
  try {
    parseJson(typeof input === 'string' ? bytesOf(input) : input)
  } catch (error) {
    if (error instanceof JsonInputError) return error
    throw error
  }
  throw new Error(`accepted: ${input}`)
}

/** Written as JSON, each number is one that a double carries. */
const jsonText = fc.json({ maxDepth: 6, noUnicodeString: false } as fc.JsonSharedConstraints)
const anyName = fc.string({ unit: 'grapheme', maxLength: 8 })

describe('parseJson', () => {
  it('returns what JSON.parse returns for any output of JSON.stringify', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          jsonText,
          jsonText.map((text) => JSON.stringify(JSON.parse(text), null, 2)),
        ),
        (text) => {
          expect(parseJson(bytesOf(text))).to.deep.equal(JSON.parse(text))
        },
      ),
    )
  })

  it('accepts every double as JSON.stringify writes it', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        expect(parseJson(bytesOf(JSON.stringify([number])))).to.deep.equal([number === 0 ? 0 : number])
      }),
    )
  })

  it('reads bytes from the middle of a larger buffer', () => {
    const whole = bytesOf('xx{"a":1}xx')
    expect(parseJson(whole.subarray(2, 9))).to.deep.equal({ a: 1 })
  })

  it('makes __proto__ an own property and leaves the prototype alone', () => {
    const value = parseJson(bytesOf('{"__proto__":{"admin":true},"constructor":1}'))
    expect(Object.keys(value as object)).to.deep.equal(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(value)).to.equal(Object.prototype)
  })

  it('counts only own members when Object.prototype was extended', () => {
    // Assertions wait until the prototype is whole again: chai itself cannot work on a changed one.
    Object.defineProperty(Object.prototype, 'extended', { value: 1, enumerable: true, configurable: true })
    let names: string[]
    let refused: JsonInputError
    try {
      names = Object.keys(parseJson(bytesOf('{"a":1,"b":2}')) as object)
      refused = refusal('{"a":1,"a":2}')
    } finally {
      Reflect.deleteProperty(Object.prototype, 'extended')
    }
    expect(names).to.deep.equal(['a', 'b'])
    expect(refused.code).to.equal('duplicate_member')
  })

  describe('on validity', () => {
    const fragments = [
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      'u',
      '0',
      '1',
      '-',
      '.',
      'e',
      '+',
      ' ',
      '\n',
      '\t',
      'true',
      'nul',
      'é',
      '\u0000',
      '"a"',
      '\\n',
      '\\x',
    ]
    const mutated = fc
      .tuple(
        jsonText,
        fc.array(fc.tuple(fc.nat(), fc.nat(2), fc.constantFrom(...fragments)), { maxLength: 4 }),
      )
      .map(([text, edits]) =>
        edits.reduce((now, [where, cut, insert]) => {
          const at = where % (now.length + 1)
          return (now.slice(0, at) + insert + now.slice(at + cut)).toWellFormed()
        }, text),
      )

    it('accepts nothing that JSON.parse refuses, and diagnoses every other refusal', () => {
      fc.assert(
        fc.property(
          fc.oneof(
            mutated,
            fc.array(fc.constantFrom(...fragments)).map((parts) => parts.join('')),
          ),
          (text) => {
            let native: { value: unknown } | undefined
            try {
              native = { value: JSON.parse(text) }
            } catch (error) {
              expect(error).to.be.instanceOf(SyntaxError)
            }
            let strict: { value: unknown } | undefined
            let code: string | undefined
            try {
              strict = { value: parseJson(bytesOf(text)) }
            } catch (error) {
              expect(error).to.be.instanceOf(JsonInputError)
              code = (error as JsonInputError).code
            }
            if (native === undefined) expect(strict).to.equal(undefined)
            else if (strict !== undefined) expect(strict.value).to.deep.equal(native.value)
            else
              expect(code).to.be.oneOf(['duplicate_member', 'number_not_exact', 'lone_surrogate', 'too_deep'])
          },
        ),
        { numRuns: 3000 },
      )
    })

    for (const [text, offset] of [
      ['', 0],
      [' ', 1],
      ['{"a":1,}', 7],
      ['[1,]', 3],
      ['{"a" 1}', 5],
      ['[1 2]', 3],
      ['nulL', 3],
      ['01', 0],
      ['1.', 0],
      ['"\t"', 1],
      ['"\\x"', 2],
      ['"\\u12g4"', 5],
      ['"abc', 4],
      ['{"é":tru}', 9],
      ['1 2', 2],
      ["{'a':1}", 1],
      ['NaN', 0],
    ] as const)
      it(`refuses ${JSON.stringify(text)} at byte ${offset}`, () => {
        expect(refusal(text)).to.include({ code: 'not_json', offset })
      })
  })

  describe('on duplicate members', () => {
    it('finds one in any object, at its second occurrence', () => {
      fc.assert(
        fc.property(jsonText, anyName, jsonText, jsonText, (before, name, one, two) => {
          const key = JSON.stringify(name)
          const head = `{"w":[${before}],"in":{${key}:${one},`
          const error = refusal(`${head}${key}:${two}}}`)
          expect(error).to.include({ code: 'duplicate_member', offset: bytesOf(head).length })
        }),
      )
    })

    it('compares names after unescaping', () => {
      expect(refusal('{"a":1,"\\u0061":2}')).to.include({ code: 'duplicate_member', offset: 7 })
      expect(refusal('{"__proto__":1,"__proto__":2}').code).to.equal('duplicate_member')
    })

    it('allows one name in several objects, and names that differ only in normal form', () => {
      const text = '{"a":{"a":[{"a":1},{"a":2}]},"\u00e9":1,"e\u0301":2}'
      expect(parseJson(bytesOf(text))).to.deep.equal(JSON.parse(text))
    })

    it('does not count colons and quotes within strings as members', () => {
      const text = '{"a\\":":"\\\\","b":"x\\":1,\\"y\\":"}'
      expect(parseJson(bytesOf(text))).to.deep.equal(JSON.parse(text))
    })

    it('does not repeat a long name in its message', () => {
      const key = JSON.stringify('n'.repeat(5000))
      expect(refusal(`{${key}:1,${key}:2}`).message.length).to.be.lessThan(100)
    })
  })

  describe('on numbers', () => {
    for (const token of [
      '0',
      '-0',
      '0.0',
      '-0.0e9',
      '0e99999999999999999999',
      '0.1',
      '1.0',
      '1e2',
      '1E+2',
      '100e-2',
      '9007199254740991',
      '9007199254740992',
      '9007199254740994',
      '0.30000000000000004',
      '1e23',
      '100000000000000000000000',
      '5e-324',
      '1.7976931348623157e308',
      '2.2250738585072014e-308',
      `1${'0'.repeat(22)}`,
      `0.${'0'.repeat(30)}1`,
      `1.${'0'.repeat(400)}`,
      `${'1'.padEnd(301, '0')}e-300`,
    ])
      it(`accepts ${token.slice(0, 40)}`, () => {
        expect(parseJson(bytesOf(`[${token}]`))).to.deep.equal([Number(token)])
      })

    for (const token of [
      '1e400',
      '-1e400',
      '12345678901234567890123',
      '9007199254740993',
      '1e-400',
      '0.1000000000000000055511151231257827',
      '3e-324',
      '1.00000000000000000001',
      '1e99999999999999999999',
      '1e-99999999999999999999',
      '123456789012345678',
      `0.${'0'.repeat(400)}1`,
    ])
      it(`refuses ${token.slice(0, 40)}`, () => {
        expect(refusal(`{"a":[1,${token}]}`)).to.include({ code: 'number_not_exact', offset: 8 })
      })

    it('refuses a decimal exactly when the double has another value', () => {
      const written = (number: number) => {
        const [mantissa = '', power = '0'] = String(number).split('e')
        const [whole = '', fraction = ''] = mantissa.split('.')
        return BigInt(whole + fraction) * 10n ** BigInt(Number(power) - fraction.length)
      }
      const integers = fc
        .tuple(fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }), fc.integer({ min: 0, max: 12 }), fc.nat(6))
        .map(([mantissa, zeros, cut]) => (mantissa / 10n ** BigInt(cut)) * 10n ** BigInt(zeros))
      fc.assert(
        fc.property(integers, (integer) => {
          const exact = written(Number(integer)) === integer
          if (exact) expect(parseJson(bytesOf(`[${integer}]`))).to.deep.equal([Number(integer)])
          else expect(refusal(`${integer}`).code).to.equal('number_not_exact')
        }),
        { numRuns: 2000 },
      )
    })
  })

  describe('on text', () => {
    it('refuses invalid UTF-8 at its first byte', () => {
      const errors = [[0x80], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]]
      fc.assert(
        fc.property(anyName, fc.constantFrom(...errors), (prefix, invalid) => {
          const head = bytesOf(`"\ufffd${JSON.stringify(prefix).slice(1, -1)}`)
          const error = refusal(new Uint8Array([...head, ...invalid, 0x22]))
          expect(error).to.include({ code: 'invalid_utf8', offset: head.length })
        }),
      )
    })

    it('refuses a byte order mark', () => {
      expect(refusal('\ufeff{}')).to.include({ code: 'byte_order_mark', offset: 0 })
    })

    it('accepts escaped pairs and refuses halves of them, in names and in strings', () => {
      const unit = fc.oneof(
        fc.integer({ min: 0xd7f0, max: 0xe010 }).map((code) => `\\u${code.toString(16)}`),
        fc.integer({ min: 0xd7f0, max: 0xe010 }).map((code) => `\\u${code.toString(16).toUpperCase()}`),
        fc.constantFrom('x', '\\\\', '\\n', '😀', '\\\\ud800', 'ud800'),
      )
      fc.assert(
        fc.property(fc.array(unit, { maxLength: 5 }), fc.boolean(), (units, asName) => {
          const string = `"${units.join('')}"`
          const text = asName ? `{${string}:1}` : `[1,${string}]`
          if ((JSON.parse(string) as string).isWellFormed())
            expect(parseJson(bytesOf(text))).to.deep.equal(JSON.parse(text))
          else expect(refusal(text).code).to.equal('lone_surrogate')
        }),
        { numRuns: 2000 },
      )
    })
  })

  describe('on depth', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

    it('accepts 512 levels and refuses 513', () => {
      expect(parseJson(bytesOf(nested(512)))).to.be.an('array')
      expect(refusal(nested(513))).to.include({ code: 'too_deep', offset: 512 })
      expect(refusal(`${'{"a":'.repeat(513)}1${'}'.repeat(513)}`).code).to.equal('too_deep')
    })

    it('refuses a flood of open brackets', () => {
      expect(refusal('['.repeat(200_000)).code).to.equal('too_deep')
    })

    it('does not count brackets side by side or within strings', () => {
      expect(parseJson(bytesOf(`[${'[],'.repeat(2000)}"${'['.repeat(600)}"]`))).to.have.length(2001)
    })
  })

  describe('on structure', () => {
    const arrays = (count: number) => `[${new Array<string>(count - 1).fill('[]').join(',')}]`
    const names = (count: number, name: (index: number) => string) =>
      Array.from({ length: count }, (_, index) => `{"${name(index)}":1}`).join(',')

    it('accepts 50,000 arrays and objects and refuses one more', () => {
      expect(parseJson(bytesOf(arrays(50_000)))).to.have.length(49_999)
      expect(refusal(arrays(50_001)).code).to.equal('too_many_containers')
    })

    it('refuses more than 10,000 different member names, in one object or in many', () => {
      expect(parseJson(bytesOf(`[${names(10_000, (index) => `k${index}`)}]`))).to.have.length(10_000)
      expect(refusal(`[${names(10_020, (index) => `k${index}`)}]`).code).to.equal('too_many_names')
      expect(refusal(`[${names(10_020, (index) => `\\u0061${index}`)}]`).code).to.equal('too_many_names')
    })

    it('counts a repeated member name once', () => {
      expect(parseJson(bytesOf(`[${names(40_000, (index) => `k${index % 100}`)}]`))).to.have.length(40_000)
    })
  })
})
