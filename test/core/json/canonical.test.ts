import { readdirSync, readFileSync } from 'node:fs'
import { CanonicalJsonError, canonicalize, canonicalizeAround, type WrittenMember } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'

// Compiled tests run from test/dist; the fixtures stay in test/fixtures.
const fixtures = new URL('../../../fixtures/jcs/', import.meta.url)

function naive(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(naive).join(',')}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${naive(item)}`).join(',')}}`
}

function assertEqual(actual: unknown, expected: unknown): void {
  expect(actual).to.deep.equal(expected)
}

function refusal(value: unknown): CanonicalJsonError {
  try {
    canonicalize(value)
  } catch (error) {
    if (error instanceof CanonicalJsonError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

function nested(levels: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value }
  return value
}

/** Rebuilds every object with its members in another order. */
function shuffled(value: unknown, seed: number): unknown {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map((item) => shuffled(item, seed))
  const rank = (key: string) => (key.length * 7919 + (key.charCodeAt(0) || 0) * 31 + seed) % 13
  const entries = Object.entries(value).sort(([a], [b]) => rank(a) - rank(b))
  return Object.fromEntries(entries.map(([key, item]) => [key, shuffled(item, seed)]))
}

describe('canonicalize', () => {
  describe('RFC 8785 test vectors', () => {
    for (const name of readdirSync(new URL('input/', fixtures))) {
      it(name, () => {
        const input: unknown = JSON.parse(readFileSync(new URL(`input/${name}`, fixtures), 'utf8'))
        expect(canonicalize(input)).to.equal(readFileSync(new URL(`output/${name}`, fixtures), 'utf8'))
      })
    }
  })

  describe('RFC 8785 appendix B number samples', () => {
    const samples: [string, string][] = [
      ['0000000000000000', '0'],
      ['8000000000000000', '0'],
      ['0000000000000001', '5e-324'],
      ['8000000000000001', '-5e-324'],
      ['7fefffffffffffff', '1.7976931348623157e+308'],
      ['ffefffffffffffff', '-1.7976931348623157e+308'],
      ['4340000000000000', '9007199254740992'],
      ['c340000000000000', '-9007199254740992'],
      ['4430000000000000', '295147905179352830000'],
      ['44b52d02c7e14af5', '9.999999999999997e+22'],
      ['44b52d02c7e14af6', '1e+23'],
      ['44b52d02c7e14af7', '1.0000000000000001e+23'],
      ['444b1ae4d6e2ef4e', '999999999999999700000'],
      ['444b1ae4d6e2ef4f', '999999999999999900000'],
      ['444b1ae4d6e2ef50', '1e+21'],
      ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
      ['3eb0c6f7a0b5ed8d', '0.000001'],
      ['41b3de4355555553', '333333333.3333332'],
      ['41b3de4355555554', '333333333.33333325'],
      ['41b3de4355555555', '333333333.3333333'],
      ['41b3de4355555556', '333333333.3333334'],
      ['41b3de4355555557', '333333333.33333343'],
      ['becbf647612f3696', '-0.0000033333333333333333'],
      ['43143ff3c1cb0959', '1424953923781206.2'],
    ]
    for (const [bits, text] of samples) {
      it(`${bits} is ${text}`, () => {
        expect(canonicalize(Buffer.from(bits, 'hex').readDoubleBE())).to.equal(text)
      })
    }
  })

  describe('properties', () => {
    const json = fc.jsonValue({ stringUnit: 'grapheme' })

    it('equals a naive sorted JSON.stringify', () => {
      fc.assert(fc.property(json, (value) => assertEqual(canonicalize(value), naive(value))))
    })

    it('is the same for its own parsed text', () => {
      fc.assert(
        fc.property(json, (value) => {
          const text = canonicalize(value)
          expect(canonicalize(JSON.parse(text))).to.equal(text)
        }),
      )
    })

    it('carries the value', () => {
      fc.assert(
        fc.property(json, (value) => assertEqual(JSON.parse(canonicalize(value)), JSON.parse(naive(value)))),
      )
    })

    it('does not depend on the order of members', () => {
      fc.assert(
        fc.property(json, fc.nat(), (value, seed) =>
          assertEqual(canonicalize(shuffled(value, seed)), canonicalize(value)),
        ),
      )
    })

    it('escapes any well-formed string as JSON.stringify does', () => {
      const wild = fc.string({ unit: 'binary', maxLength: 80 })
      fc.assert(fc.property(wild, (text) => assertEqual(canonicalize(text), JSON.stringify(text))))
    })
  })

  it('sorts by UTF-16 code units, not by code points', () => {
    expect(canonicalize({ '\ufb33': 1, '\u{1f600}': 2, '\u20ac': 3 })).to.equal(
      '{"\u20ac":3,"\u{1f600}":2,"\ufb33":1}',
    )
  })

  it('leaves out undefined members', () => {
    expect(canonicalize({ a: undefined, b: 1, c: undefined })).to.equal('{"b":1}')
  })

  it('calls toJSON with the key, also if it returns undefined', () => {
    const value = {
      when: new Date(0),
      who: { toJSON: (key: string) => `I am ${key}` },
      gone: { toJSON: () => undefined },
    }
    expect(canonicalize(value)).to.equal('{"when":"1970-01-01T00:00:00.000Z","who":"I am who"}')
  })

  it('keeps an own __proto__ member', () => {
    expect(canonicalize(JSON.parse('{"a":1,"__proto__":{"b":2}}'))).to.equal('{"__proto__":{"b":2},"a":1}')
  })

  it('writes boxed primitives as the primitives they hold', () => {
    expect(canonicalize([Object(1), Object('a'), Object(true)])).to.equal('[1,"a",true]')
  })

  it('reads objects without a prototype', () => {
    expect(canonicalize(Object.assign(Object.create(null), { b: 1, a: 2 }))).to.equal('{"a":2,"b":1}')
  })

  it('accepts 512 levels and refuses 513', () => {
    expect(canonicalize(nested(512))).to.equal(JSON.stringify(nested(512)))
    expect(refusal(nested(513)).code).to.equal('too_deep')
  })

  it('refuses a cycle and names where it begins', () => {
    const loop: Record<string, unknown> = { inner: { list: [1] } }
    ;(loop.inner as Record<string, unknown>).list = [{ again: loop.inner }]
    const error = refusal({ outer: loop })
    expect(error.code).to.equal('cycle')
    expect(error.path).to.match(/^\$\.outer\.inner/)
  })

  it('writes a value that occurs twice without being a cycle', () => {
    const shared = { a: 1 }
    expect(canonicalize([shared, shared])).to.equal('[{"a":1},{"a":1}]')
  })

  describe('refuses with a code and the path of', () => {
    const refused: [string, unknown, string, string][] = [
      ['undefined alone', undefined, 'undefined_value', '$'],
      ['undefined in an array', { a: [1, undefined] }, 'undefined_value', '$.a[1]'],
      // biome-ignore lint/suspicious/noSparseArray: the hole is what is tested.
      ['a hole', { a: [1, , 2] }, 'sparse_array', '$.a[1]'],
      ['a function member', { a: { 'odd key': () => 1 } }, 'function_value', '$.a["odd key"]'],
      ['a symbol', [Symbol('s')], 'symbol_value', '$[0]'],
      ['a BigInt', { n: 1n }, 'bigint_value', '$.n'],
      ['NaN', { n: Number.NaN }, 'non_finite_number', '$.n'],
      ['Infinity', [[Number.POSITIVE_INFINITY]], 'non_finite_number', '$[0][0]'],
      ['a lone surrogate', { s: 'a\ud800b' }, 'lone_surrogate', '$.s'],
      ['a lone surrogate in a long string', { s: `${'x'.repeat(90)}\udc00` }, 'lone_surrogate', '$.s'],
      ['a lone surrogate in a key', { a: { '\ud800': 1 } }, 'lone_surrogate', '$.a'],
      ['a Map', { m: new Map([[1, 2]]) }, 'unsupported_object', '$.m'],
    ]
    for (const [title, value, code, path] of refused) {
      it(title, () => {
        const error = refusal(value)
        expect([error.code, error.path]).to.deep.equal([code, path])
      })
    }
  })

  it('rethrows an error of a getter or toJSON unchanged', () => {
    const own = new RangeError('mine')
    const value = {
      toJSON() {
        throw own
      },
    }
    expect(() => canonicalize({ a: value })).to.throw(own)
  })

  it('may be used by a toJSON in the middle of a value', () => {
    const inner = { toJSON: () => canonicalize({ ü: 'x'.repeat(100_000) }) }
    const text = canonicalize({ a: 'before', b: inner, c: 'é', d: 'after' })
    expect(JSON.parse(text)).to.deep.equal({
      a: 'before',
      b: JSON.stringify({ ü: 'x'.repeat(100_000) }),
      c: 'é',
      d: 'after',
    })
    expect(canonicalize({ ok: true })).to.equal('{"ok":true}')
  })

  it('writes text of any length and script as JSON.stringify does', () => {
    for (const piece of ['a', '"', '\\', '\n', '\u007f', '\u0080', 'é', '語', '😀'])
      for (const length of [1, 23, 24, 47, 48, 49, 5_000, 70_000]) {
        const text = piece.repeat(length)
        expect(canonicalize([text, { [text]: null }])).to.equal(JSON.stringify([text, { [text]: null }]))
      }
  })
})

describe('canonicalizeAround', () => {
  interface Split {
    readonly bytes: Buffer
    readonly headEnd: number
  }
  const split = (object: object, name: string, more: readonly WrittenMember[] = []): Split =>
    canonicalizeAround(object, name, more, (bytes, headEnd) => ({ bytes: Buffer.from(bytes), headEnd }))
  const partsOf = ({ bytes, headEnd }: Split) => ({
    head: bytes.toString('utf8', 0, headEnd),
    tail: bytes.toString('utf8', headEnd).replace(/^,/, ''),
  })
  const withMember = (cut: Split, member: string) =>
    [partsOf(cut).head, member, partsOf(cut).tail].join(',').replace(/^\{,/, '{').replace(/,\}$/, '}')
  const json = fc.dictionary(fc.string(), fc.jsonValue()).filter((object) => !Object.hasOwn(object, 'sig'))

  it('returns the text without the member and with it, from one traversal', () => {
    fc.assert(
      fc.property(json, (object) => {
        const cut = split(object, 'sig')
        expect(cut.bytes.toString()).to.equal(canonicalize(object))
        expect(withMember(cut, '"sig":"x"')).to.equal(canonicalize({ ...object, sig: 'x' }))
      }),
    )
  })

  it('writes further members as those of one object', () => {
    const names = ['log_id', 'lost', 'seq']
    const given = fc.dictionary(fc.constantFrom(...names), fc.jsonValue())
    const others = json.filter((object) => names.every((name) => !Object.hasOwn(object, name)))
    // Names around the further members, so that they are between others.
    const around = fc.dictionary(
      fc.constantFrom('a', 'lo', 'log_ie', 'm', 'se', 'seqs', 'sig_', 'z'),
      fc.jsonValue(),
    )
    fc.assert(
      fc.property(given, others, around, (more, object, near) => {
        const all = { ...object, ...near }
        const texts = names
          .filter((name) => Object.hasOwn(more, name))
          .map((name) => ({ name, text: `"${name}":${canonicalize(more[name])}` }))
        const cut = split(all, 'sig', texts)
        expect(cut.bytes.toString()).to.equal(canonicalize({ ...all, ...more }))
        expect(withMember(cut, '"sig":"x"')).to.equal(canonicalize({ ...all, ...more, sig: 'x' }))
      }),
    )
    expect(() => split({ seq: 1 }, 'sig', [{ name: 'seq', text: '"seq":2' }])).to.throw(
      CanonicalJsonError,
      /\$\.seq/,
    )
  })

  it('refuses an object that has the member already, even undefined', () => {
    expect(() => split({ a: 1, sig: 'x' }, 'sig')).to.throw(CanonicalJsonError, /\$\.sig/)
    expect(() => split({ sig: undefined }, 'sig')).to.throw(CanonicalJsonError, /\$\.sig/)
  })

  it('keeps newlines in values escaped, so that the split is unambiguous', () => {
    const cut = split({ a: 'x\ny', z: '\n' }, 'sig')
    expect(partsOf(cut)).to.deep.equal({ head: '{"a":"x\\ny"', tail: '"z":"\\n"}' })
  })
})
