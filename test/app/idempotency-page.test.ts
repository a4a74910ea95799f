import { expect } from 'chai'
import { docsPolicy } from '../support/docs-policy.js'
import { startTestGateway } from '../support/gateway.js'
import { startUpstream } from '../support/upstream.js'

describe('docs/idempotency.md', () => {
  it('describes the effect of its policy', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway(docsPolicy('idempotency.md', upstream.url))
    const buy = () => gateway.invoke('/mcp/shop/buy@1.0.0', { item: 7 }, { 'idempotency-key': '5f0c1c9e' })
    const responses = [await buy(), await buy()]
    expect(responses.map(({ headers }) => headers.get('x-dedupe'))).to.deep.equal(['first', 'replay'])
    expect(await responses[1]?.text()).to.equal(await responses[0]?.text())
    expect(upstream.calls).to.have.lengthOf(1)
  })
})
