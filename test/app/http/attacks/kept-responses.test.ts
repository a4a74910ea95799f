// A caller tries to get the response that was stored for another caller.
import { expect } from 'chai'
import { startTestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { startUpstream } from '../../../support/upstream.js'

describe('a response that is kept under an idempotency key', () => {
  const owner = { org: 'acme', sub: 'ada', email: 'ada@example.com' }
  const others: readonly (readonly [who: string, claims: Record<string, unknown>])[] = [
    ['another person', { ...owner, sub: 'eve', email: 'eve@example.com' }],
    ['another person under the same address', { ...owner, sub: 'eve' }],
    ['the same person in another tenant', { ...owner, org: 'other' }],
    ['an agent that is named like the person', { ...owner, email: undefined, client_id: 'ada' }],
    ['a tenant and a person that run into each other', { ...owner, org: 'acmeuser', sub: 'ada' }],
  ]
  for (const [who, claims] of others) {
    it(`is not replayed to ${who}`, async () => {
      await using issuer = await TestIssuer.start()
      await using upstream = await startUpstream()
      await using gateway = await startTestGateway((home) => ({
        sec0Dir: home,
        targets: { files: upstream.url },
        authn: { oidc: issuer.oidc },
        dedupe: {},
      }))
      const call = async (of: Record<string, unknown>): Promise<string | null> => {
        const headers = { authorization: `Bearer ${await issuer.sign(of)}`, 'idempotency-key': 'k' }
        const response = await gateway.invoke('/mcp/files/pay@1', { amount: 1 }, headers)
        expect(response.status).to.equal(200)
        return response.headers.get('x-dedupe')
      }
      expect(await call(owner)).to.equal('first')
      expect(await call(claims)).to.equal('first')
      expect(await call(owner)).to.equal('replay')
      expect(upstream.calls).to.have.length(2)
    })
  }
})
