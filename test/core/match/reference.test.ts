import {
  formatNameSegment,
  formatReference,
  formatToolSegment,
  parseNameSegment,
  parseReference,
  parseToolSegment,
  type Reference,
  ReferenceInputError,
} from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'

const isName = (text: string) =>
  text !== '' &&
  !/\p{Cc}/u.test(text) &&
  text.isWellFormed() &&
  text.normalize('NFC') === text &&
  !/%(?:[0-9a-f]{2}|u[0-9a-f]{4})/i.test(text) &&
  text
    .normalize('NFKC')
    .split(/[\\/]/)
    .every((segment) => !['', '.', '..'].includes((segment.split(';')[0] ?? '').trim()))

const name = fc
  .array(
    fc.oneof(
      fc.constantFrom('/', '@', '%', '.', '*', '?', '#', ' ', 'x', '\u00e9'),
      fc.string({ unit: 'grapheme', maxLength: 3 }),
    ),
    {
      minLength: 1,
      maxLength: 5,
    },
  )
  .map((pieces) => pieces.join(''))
  .filter(isName)

const version = fc.stringMatching(/^[A-Za-z0-9._+-]{1,8}$/).filter((text) => text !== '.' && text !== '..')

const parts: fc.Arbitrary<Reference> = fc.oneof(
  fc.record({ server: name, tool: name, version }),
  fc.record({ server: name, prompt: name, version }),
)

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof ReferenceInputError) return error.code
    throw error
  }
  throw new Error('accepted')
}

describe('references', () => {
  it('format tools, prompts and resources', () => {
    expect(formatReference({ server: 'files', tool: 'read', version: '1.2.0' })).to.equal(
      'mcp://files/read@1.2.0',
    )
    expect(formatReference({ server: 'files', prompt: 'sum up', version: '1' })).to.equal(
      'mcp://files/prompts/sum up@1',
    )
    expect(formatReference({ server: 'files', resource: 'file:///a@b', version: '1' })).to.equal(
      'mcp://files/resources/file:%2F%2F%2Fa%40b@1',
    )
  })

  it('are parsed into their names', () => {
    fc.assert(
      fc.property(parts, (reference) => {
        expect(parseReference(formatReference(reference))).to.deep.equal(reference)
      }),
    )
  })

  it('have one canonical text: parsing and formatting is idempotent', () => {
    fc.assert(
      fc.property(parts, (reference) => {
        const text = formatReference(reference)
        expect(formatReference(parseReference(text))).to.equal(text)
      }),
    )
  })

  it('distinguish a tool from a prompt for any tool name', () => {
    const tool = formatReference({ server: 's', tool: 'prompts/x', version: '1' })
    expect(tool).to.equal('mcp://s/prompts%2Fx@1')
    expect(parseReference(tool)).to.deep.equal({ server: 's', tool: 'prompts/x', version: '1' })
    expect(parseReference('mcp://s/prompts@1')).to.deep.equal({ server: 's', tool: 'prompts', version: '1' })
  })

  it('accept any valid percent-encoding and decode it once', () => {
    expect(parseReference('mcp://%66iles/%C3%A9%25@1')).to.deep.equal({
      server: 'files',
      tool: 'é%',
      version: '1',
    })
  })

  for (const [text, code] of [
    ['', 'not_a_reference'],
    ['MCP://s/t@1', 'not_a_reference'],
    ['http://s/t@1', 'not_a_reference'],
    ['mcp://s', 'not_a_reference'],
    ['mcp://s/t', 'not_a_reference'],
    ['mcp://s/t@1@2', 'not_a_reference'],
    ['mcp://s@1/t@2', 'not_a_reference'],
    ['mcp://s/a/b@1', 'not_a_reference'],
    ['mcp://s/prompts/a/b@1', 'not_a_reference'],
    ['mcp:///t@1', 'empty_name'],
    ['mcp://s/@1', 'empty_name'],
    ['mcp://s/t@', 'bad_version'],
    ['mcp://s/t@..', 'bad_version'],
    ['mcp://s/t@1.0%2F..%2Fu%401.0.0', 'bad_version'],
    ['mcp://s/t@1.0%5Cu', 'bad_version'],
    ['mcp://s/t@1.0%25', 'bad_version'],
    ['mcp://s/t@1%00', 'bad_version'],
    ['mcp://s/t@1 0', 'bad_version'],
    ['mcp://s/a%2F..%2Fb@1', 'dot_name'],
    ['mcp://s/a%2F%2Fb@1', 'dot_name'],
    ['mcp://s/a%2F@1', 'dot_name'],
    ['mcp://s/a%5C..%5Cb@1', 'dot_name'],
    ['mcp://s/a%2F..%3Bx%2Fb@1', 'dot_name'],
    ['mcp://s/a%2F%EF%BC%8E%EF%BC%8E%2Fb@1', 'dot_name'],
    ['mcp://s/a%252F..%252Fb@1', 'encoded_twice'],
    ['mcp://s/%2564elete@1', 'encoded_twice'],
    ['mcp://s/%25u002e@1', 'encoded_twice'],
    ['mcp://s/e%CC%81@1', 'not_composed'],
    ['mcp://./t@1', 'dot_name'],
    ['mcp://s/%2E%2e@1', 'dot_name'],
    ['mcp://s/..@1', 'dot_name'],
    ['mcp://s/a%@1', 'malformed_encoding'],
    ['mcp://s/a%2@1', 'malformed_encoding'],
    ['mcp://s/%zz@1', 'malformed_encoding'],
    ['mcp://s/%C0%AF@1', 'malformed_encoding'],
    ['mcp://s/%ED%A0%80@1', 'malformed_encoding'],
    ['mcp://s/a%00@1', 'control_character'],
    ['mcp://s/a%0D%0A@1', 'control_character'],
    ['mcp://s/a\u007f@1', 'control_character'],
    ['mcp://s/a\u0085@1', 'control_character'],
    ['mcp://s/\ud800@1', 'malformed_unicode'],
    [`mcp://s/e${'\u0301'.repeat(31)}@1`, 'piled_up_marks'],
    [`mcp://s/e${'\u0344'.repeat(16)}@1`, 'not_composed'],
  ] as const)
    it(`refuse ${JSON.stringify(text)} as ${code}`, () => {
      expect(codeOf(() => parseReference(text))).to.equal(code)
    })

  it('accept names of up to 4096 characters', () => {
    const sized = (length: number) =>
      formatReference({ server: 's', resource: 'r'.repeat(length), version: '1' })
    expect(parseReference(sized(4096)))
      .to.have.property('resource')
      .with.length(4096)
    expect(codeOf(() => sized(4097))).to.equal('name_too_long')
  })

  it('refuse the same names when given decoded', () => {
    for (const [bad, code] of [
      ['', 'empty_name'],
      ['..', 'dot_name'],
      ['a\0', 'control_character'],
      ['\udfff', 'malformed_unicode'],
    ] as const) {
      expect(codeOf(() => formatReference({ server: bad, tool: 't', version: '1' }))).to.equal(code)
      expect(() => formatReference({ server: 's', resource: bad, version: '1' })).to.throw(
        ReferenceInputError,
      )
      expect(codeOf(() => formatReference({ server: 's', prompt: bad, version: '1' }))).to.equal(code)
    }
  })
})

describe('path segments', () => {
  it('encode a tool and version in a URL reversibly', () => {
    fc.assert(
      fc.property(name, version, (tool, pinned) => {
        const segment = formatToolSegment({ tool, version: pinned })
        const path = new URL(`http://h/mcp/s/${segment}`).pathname
        expect(path).to.equal(`/mcp/s/${segment}`)
        expect(parseToolSegment(segment)).to.deep.equal({ tool, version: pinned })
      }),
    )
  })

  it('encode one name', () => {
    expect(formatNameSegment('a/b@c d')).to.equal('a%2Fb%40c%20d')
    expect(parseNameSegment('a%2Fb%40c%20d')).to.equal('a/b@c d')
  })

  for (const segment of ['t', 't%401', 't@1@2', 'a/b@1', '@1', 't@', '%2e@1', 't@%00'])
    it(`refuse ${segment}`, () => {
      expect(() => parseToolSegment(segment)).to.throw(ReferenceInputError)
    })
})
