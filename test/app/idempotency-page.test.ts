import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { startTestGateway } from '../support/gateway.js'
import { startUpstream } from '../support/upstream.js'

const page = readFileSync(new URL('../../../docs/idempotency.md', import.meta.url), 'utf8')

describe('docs/idempotency.md', () => {
  it('describes its policy', async () => {
    const [, policy = ''] = /```yaml\n(tenant:[\s\S]*?)```/.exec(page) ?? []
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway((home) => ({
      policyYaml: policy
        .replace('http://127.0.0.1:9000', upstream.url)
        .replace('port: 8787', `port: 0\nsec0Dir: ${home}`)
        .replace('file://audit.key', `"file://${home}/key"`),
    }))
    const buy = () => gateway.invoke('/mcp/shop/buy@1.0.0', { item: 7 }, { 'idempotency-key': '5f0c1c9e' })
    const answers = [await buy(), await buy()]
    expect(answers.map(({ headers }) => headers.get('x-dedupe'))).to.deep.equal(['first', 'replay'])
    expect(await answers[1]?.text()).to.equal(await answers[0]?.text())
    expect(upstream.calls).to.have.lengthOf(1)
  })
})
