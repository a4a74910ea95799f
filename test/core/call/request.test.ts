import { callRequest, type RequestKind, requestReference } from '@svc/core'
import { expect } from 'chai'

const head = { kind: 'tool', method: null, server: 'files', name: 'read', version: '1' } as const

describe('callRequest', () => {
  it('derives the reference, the canonical arguments and their size', () => {
    const request = callRequest({ ...head, args: { b: 'é', a: 1 }, idempotencyKey: 'k' })
    expect(request).to.deep.equal({
      ...head,
      args: { b: 'é', a: 1 },
      idempotencyKey: 'k',
      reference: 'mcp://files/read@1',
      canonicalArgs: '{"a":1,"b":"é"}',
      bytes: 16,
    })
  })

  it('keeps the size of what the caller sent, where it is given', () => {
    expect(callRequest({ ...head, args: {}, bytes: 40, idempotencyKey: null }).bytes).to.equal(40)
  })

  it('throws for a name that has no reference', () => {
    expect(() => callRequest({ ...head, name: '..', args: {}, idempotencyKey: null })).to.throw()
  })

  const references: [RequestKind, string, string][] = [
    ['tool', 'read', 'mcp://files/read@1'],
    ['prompt', 'review', 'mcp://files/prompts/review@1'],
    ['resource', 'a', 'mcp://files/resources/a@1'],
    ['protocol', 'ping', 'mcp://files/'],
  ]
  for (const [kind, name, reference] of references) {
    it(`gives a ${kind} the reference ${reference}`, () => {
      expect(requestReference({ kind, server: 'files', name, version: '1' })).to.equal(reference)
    })
  }
})
