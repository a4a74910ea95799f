import { canonicalize, type JsonObject } from '@svc/core/json'
import { issueMandates } from '@svc/plugin-ap2/dev'
import { expect } from 'chai'
import { args, issuance, section } from '../../plugins/ap2/purchase.js'
import { startTestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { startUpstream } from '../../support/upstream.js'
import { compareBoundMembers } from './bound-members.js'

describe('a member of the arguments that a rule limits', () => {
  it('is the member that every upstream reads under that name', () => {
    const { sent } = compareBoundMembers(Number(process.env['SVC_SEED'] ?? 1), 4_000)
    // Otherwise nothing was compared.
    expect(sent).to.be.greaterThan(300)
  })

  describe('in a gateway', () => {
    const upstream = ofSuite(() => startUpstream())
    const gateway = ofSuite(() =>
      startTestGateway({
        targets: { shop: upstream.url, web: upstream.url },
        ap2: section,
        security: { side_effects: { require_idempotency_key: true, tools: { 'web/known': false } } },
      }),
    )

    async function invoke(path: string, body: JsonObject, headers: Record<string, string> = {}) {
      const before = upstream.calls.length
      const response = await gateway.invoke(path, body, headers)
      const { error, denial_reason: reason } = (await response.json()) as Record<string, unknown>
      return { status: response.status, why: reason ?? error, sent: upstream.calls.length - before }
    }

    async function buy(body: JsonObject) {
      const issuedAt = Math.floor(Date.now() / 1000)
      const mandates = await issueMandates('chain', { ...issuance, issuedAt })
      const key = { 'idempotency-key': `k-${Math.random()}` }
      return invoke('/mcp/shop/buy@1.0.0', body, { 'x-ap2-bundle': canonicalize({ ...mandates }), ...key })
    }

    const [shoe, lace] = args.lines
    const mismatches: ReadonlyArray<readonly [string, JsonObject]> = [
      ['a second amount in another case', { ...args, Amount: 999_999 }],
      [
        'the amount in another case alone',
        { Amount: 19900, currency: 'USD', card: 'card_1', lines: args.lines },
      ],
      ['a second currency with a letter of another alphabet that folds', { ...args, 'currenc\uff59': 'JPY' }],
      ['a second list', { LINES: [{ sku: 'boat', count: 9 }], ...args }],
      ['a second quantity', { ...args, lines: [{ ...shoe, Count: 9 }, lace] as JsonObject[] }],
      [
        'a quantity in another case alone',
        { ...args, lines: [shoe, { sku: 'lace', Count: 2 }] as JsonObject[] },
      ],
      [
        'a second id with the Kelvin sign',
        { ...args, lines: [{ ...shoe, 's\u212au': 'boat' }, lace] as JsonObject[] },
      ],
    ]
    for (const [what, body] of mismatches) {
      it(`is refused with ${what}, which the mandate does not cover`, async () => {
        expect(await buy(body)).to.deep.equal({ status: 403, why: 'ap2_cart_mismatch', sent: 0 })
      })
    }

    it('may have other members beside it, also members elsewhere whose names differ in case', async () => {
      const body = {
        ...args,
        files: { 'README.md': 'a', 'readme.md': 'b' },
        headers: { Accept: 'a', accept: 'b' },
      }
      expect(await buy(body)).to.include({ status: 200, sent: 1 })
    })

    const key = 'missing_idempotency_for_side_effect'
    const methods: ReadonlyArray<readonly [JsonObject, object]> = [
      [{ Method: 'DELETE' }, { status: 403, why: key, sent: 0 }],
      [{ ＭＥＴＨＯＤ: 'POST' }, { status: 403, why: key, sent: 0 }],
      [
        { method: 'GET', METHOD: 'DELETE' },
        { status: 400, why: 'BAD_REQUEST', sent: 0 },
      ],
      [
        { Method: 'DELETE', method: 'GET' },
        { status: 400, why: 'BAD_REQUEST', sent: 0 },
      ],
      [
        { method: 'GET', headers: { Method: 'DELETE' } },
        { status: 200, sent: 1 },
      ],
      [{ Method: 'get' }, { status: 200, sent: 1 }],
    ]
    for (const [body, expected] of methods) {
      it(`is read in ${JSON.stringify(body)}`, async () => {
        expect(await invoke('/mcp/web/fetch@1.0.0', body)).to.include(expected)
      })
    }

    it('is not checked if the policy states whether the tool has side effects', async () => {
      const both = { method: 'GET', METHOD: 'DELETE' }
      expect(await invoke('/mcp/web/known@1.0.0', both)).to.include({ status: 200, sent: 1 })
    })
  })
})
