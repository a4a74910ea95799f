import { expect } from 'chai'
import { docsPolicy } from '../support/docs-policy.js'
import { startTestGateway } from '../support/gateway.js'
import { startUpstream } from '../support/upstream.js'

describe('docs/limits.md', () => {
  it('describes the effect of its policy', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway(docsPolicy('limits.md', upstream.url))

    const first = await gateway.invoke('/mcp/files/read@1.0.0')
    expect(Object.fromEntries(first.headers)).to.include({
      'x-rate-remaining': '2',
      'x-quota-remaining': '999',
      'ratelimit-policy': '"plan-rate";q=3;w=6, "plan-day";q=1000;w=86400',
    })
    for (let call = 0; call < 2; call++) {
      expect(await gateway.invoke('/mcp/files/read@1.0.0')).to.have.property('status', 200)
    }
    expect(await codeOf(await gateway.invoke('/mcp/files/read@1.0.0'))).to.equal('RATE_LIMITED')

    for (let call = 0; call < 2; call++) {
      expect(await gateway.invoke('/mcp/files/export@1.0.0')).to.have.property('status', 200)
    }
    const third = await gateway.invoke('/mcp/files/export@1.0.0')
    expect(third.headers.get('x-quota-remaining')).to.equal('0')
    expect(await codeOf(third)).to.equal('QUOTA_EXCEEDED')
  })
})

async function codeOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { error: unknown }).error
}
