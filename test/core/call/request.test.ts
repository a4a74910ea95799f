import { callRequest, canonicalInput, type RequestKind, requestReference } from '@svc/core'
import { canonicalize, type JsonObject } from '@svc/core/json'
import { ReferenceInputError } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'

const head = { kind: 'tool', method: null, server: 'files', name: 'read', version: '1' } as const

describe('callRequest', () => {
  it('derives the reference, the canonical arguments and their size', () => {
    const request = callRequest({ ...head, args: { b: 'é', a: 1 }, idempotencyKey: 'k' })
    expect(request).to.deep.equal({
      ...head,
      args: { b: 'é', a: 1 },
      idempotencyKey: 'k',
      reference: 'mcp://files/read@1',
      readings: ['mcp://files/read@1'],
      canonicalArgs: '{"a":1,"b":"é"}',
      bytes: 16,
    })
  })

  it('keeps the size that the caller sent if it is given', () => {
    expect(callRequest({ ...head, args: {}, bytes: 40, idempotencyKey: null }).bytes).to.equal(40)
  })

  it('throws for a name that has no reference', () => {
    expect(() => callRequest({ ...head, name: '..', args: {}, idempotencyKey: null })).to.throw(
      ReferenceInputError,
    )
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

describe('canonicalInput', () => {
  const inputOf = (args: JsonObject, params?: JsonObject) =>
    canonicalInput(
      callRequest({ ...head, args, idempotencyKey: null, ...(params === undefined ? {} : { params }) }),
    )

  it('is the arguments alone, or the arguments and the params', () => {
    expect(inputOf({ a: 1 })).to.equal('{"a":1}')
    expect(inputOf({ a: 1 }, { task: {} })).to.equal('{"arguments":{"a":1},"params":{"task":{}}}')
    expect(inputOf({ arguments: 1, params: 2, a: 3 })).to.equal('{"a":3,"arguments":1,"params":2}')
  })

  it('is never the same text for arguments that imitate params', () => {
    expect(inputOf({ arguments: { a: 1 }, params: { task: {} } })).to.equal(
      '{"arguments":{"arguments":{"a":1},"params":{"task":{}}},"params":{}}',
    )
  })

  it('differs if arguments or params do', () => {
    // Built from the two names alone, so that inputs imitate each other at every depth.
    const { object } = fc.letrec<{ object: JsonObject }>((tie) => ({
      object: fc.oneof(
        { depthSize: 'small' },
        fc.constant({}),
        fc.record({ arguments: tie('object'), params: tie('object') }, { requiredKeys: [] }),
      ),
    }))
    const input = fc.record({ args: object, params: fc.option(object, { nil: undefined }) })
    const given = ({ args, params }: { args: JsonObject; params: JsonObject | undefined }) =>
      params === undefined || Object.keys(params).length === 0 ? [args] : [args, params]
    const texts = new Map<string, string>()
    fc.assert(
      fc.property(input, (one) => {
        const [args = {}, params] = given(one)
        const text = inputOf(args, params)
        const meant = canonicalize(given(one))
        expect(texts.get(text) ?? meant).to.equal(meant)
        texts.set(text, meant)
      }),
      { numRuns: 3000 },
    )
  })
})
