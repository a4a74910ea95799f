import { type Notice, noticeTypes } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { noticeText } from 'svc-sdk/internal/admin/notices/text'

const seed = 7

/** Pieces that a chat reads as markup, as a mention or as a special sequence. */
const hostile = fc
  .array(
    fc.constantFrom(
      '`',
      '```',
      '<!channel>',
      '<users/all>',
      '<https://evil.example|ok>',
      '&lt;!here&gt;',
      '@all',
      '@channel',
      '@here',
      '](https://evil.example)',
      '*x*',
      '_x_',
      '\n# x\n',
      '\u202e',
      '\u0000',
      '\ud800',
      'a@1.0',
      'plain',
    ),
    { maxLength: 30 },
  )
  .map((pieces) => pieces.join(''))

const names = ['tool', 'tenant', 'severity', 'status', 'expires_at', 'message', 'approval_set_id'] as const

describe('a notice as a sentence for a chat', () => {
  it('has values in code spans alone, and in them nothing that a chat acts on', () => {
    const data = fc.record({
      ...Object.fromEntries(names.map((name) => [name, hostile])),
      reasons: fc.array(hostile, { maxLength: 3 }),
    })
    const notices = fc.record({ type: fc.constantFrom(...noticeTypes), data }) as fc.Arbitrary<Notice>
    const property = fc.property(notices, (notice) => {
      const parts = noticeText(notice).split('`')
      expect(parts.length % 2).to.equal(1)
      for (const [index, part] of parts.entries()) {
        if (index % 2 === 0) expect(part).to.match(/^[A-Za-z_ :,.]*$/)
        else expect(part).to.match(/^(?:(?![<>&\p{Cc}\p{Cf}\p{Cs}]|@(?!\d)).)*$/u)
      }
    })
    fc.assert(property, { seed, numRuns: 500 })
  })

  it('is short, whatever it names', () => {
    const data = { tool: 'x'.repeat(100_000), reasons: Array(500).fill('y'.repeat(500)) }
    expect(noticeText({ type: 'escalation.opened', data })).to.have.length.below(1_000)
  })

  it('names the facts of any event', () => {
    const data = { by: 'ops', gains: ['a', 'b'], changes: 2, nothing: null, empty: [], nested: { a: 1 } }
    expect(noticeText({ type: 'policy.reloaded', data })).to.equal(
      '`policy.reloaded`: by `ops`, gains `a, b`, changes `2`',
    )
  })
})
