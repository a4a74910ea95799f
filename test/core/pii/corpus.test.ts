// Every sample of test/fixtures/pii: invented data and published test numbers, each checked by hand. The first character
// of a token is escaped there, so that scanners for secrets do not take the samples for real ones.
import { readFileSync } from 'node:fs'
import { detectPii, redactPii } from '@svc/core/pii'
import { expect } from 'chai'

interface Positive {
  readonly text: string
  readonly kinds: readonly string[]
  readonly redacted: string
}

function samples<T>(file: string): T[] {
  const lines = readFileSync(new URL(`../../../fixtures/pii/${file}`, import.meta.url), 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as T)
}

describe('redactPii', () => {
  const positive = samples<Positive>('positive.ndjson')
  const negative = samples<{ readonly text: string }>('negative.ndjson')

  for (const { text, kinds, redacted } of positive) {
    it(`redacts ${kinds.join(', ')} in ${JSON.stringify(text)}`, () => {
      expect(redactPii(text)).to.equal(redacted)
      expect(detectPii(text).map(({ kind }) => kind)).to.deep.equal(kinds)
    })
  }

  for (const { text } of negative) {
    it(`leaves ${JSON.stringify(text)} as it is`, () => expect(redactPii(text)).to.equal(text))
  }

  it('changes nothing in a text that is redacted already', () => {
    for (const { redacted } of positive) expect(redactPii(redacted)).to.equal(redacted)
  })
})
