import { createHash } from 'node:crypto'
import { sha256 } from '@svc/plugin-audit/internal/log/browser/sha256'
import { expect } from 'chai'
import fc from 'fast-check'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const expected = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

describe('SHA-256 of pages', () => {
  it('is that of Node for every length around the blocks', () => {
    for (let length = 0; length <= 200; length++) {
      const bytes = new Uint8Array(length).fill(length)
      expect(hex(sha256(bytes)), String(length)).to.equal(expected(bytes))
    }
  })

  it('is that of Node for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => hex(sha256(bytes)) === expected(bytes)),
    )
  })
})
