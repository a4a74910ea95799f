// Several gateways of one deployment: what one asks gets its response, its vote and its repetition at another.
import { expect } from 'chai'
import { ofSuite } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'
import { until } from '../../support/stdio-target.js'
import { type Round, roundAt, startHandClient } from './hand-client.js'
import { bothModes, idIn, startBilling, startGateway, waiting } from './rig.js'

describe('a call that waits for a person, at several gateways', function () {
  this.timeout(60_000)

  const billing = ofSuite(() => startBilling())
  const redis = ofSuite(() => startRedis())
  beforeEach(() => {
    billing.refunds.length = 0
  })

  const shared = () => ({
    ...waiting,
    quotas: { adapter: 'redis', redisUrl: redis.url },
    enforcement: { escalations: { adapter: 'redis', redisUrl: redis.url } },
  })

  for (const route of ['/mcp/billing', '/mcp'] as const) {
    const name = route === '/mcp' ? 'billing__refund' : 'refund'

    it(`is decided, and gets the response to its elicitation, at another gateway: ${route}, with a session`, async () => {
      await using first = await startGateway(route, billing.urls.handshake, shared())
      await using second = await startGateway(route, billing.urls.handshake, shared())
      const client = await startHandClient(first.url, {}, bothModes)
      const approved = await client.call(name, { amount: 1 })
      const { params } = await approved.request('elicitation/create')
      await second.vote(idIn(params), 'approve')
      expect(JSON.stringify(await approved.response())).to.contain('refunded 1')
      const declined = await client.call(name, { amount: 2 })
      const { id } = await declined.request('elicitation/create')
      const reply = { jsonrpc: '2.0', id, result: { action: 'decline' } }
      expect((await client.post(reply, client.sessionId, second.url)).status).to.equal(202)
      expect(JSON.stringify(await declined.response())).to.contain('ESCALATION_PENDING')
      expect(billing.refunds).to.deep.equal([1])
    })

    it(`is resumed at another gateway: ${route}, without a session`, async () => {
      await using first = await startGateway(route, billing.urls.stateless, shared())
      await using second = await startGateway(route, billing.urls.stateless, shared())
      const { requestState, inputRequests } = (await roundAt(first.url, name)({})).result
      await first.vote(idIn(inputRequests.svc.params), 'approve')
      const back = { requestState, inputResponses: { svc: { action: 'accept' } } }
      expect(JSON.stringify(await roundAt(second.url, name)(back))).to.contain('refunded 1')
      expect((await roundAt(first.url, name)(back)).error?.message).to.contain(
        'The approval was for one call',
      )
      expect(billing.refunds).to.deep.equal([1])
    })
  }

  it('escalates again at a gateway whose policy asks for more than was approved', async () => {
    const rules = [...waiting.rules, { ...waiting.rules[0], name: 'revised' }]
    await using first = await startGateway('/mcp/billing', billing.urls.stateless, shared())
    await using second = await startGateway('/mcp/billing', billing.urls.stateless, { ...shared(), rules })
    const back = ({ result }: Round) => ({
      requestState: result.requestState,
      inputResponses: { svc: { action: 'accept' } },
    })
    const asked = await roundAt(first.url, 'refund')({})
    await first.vote(idIn(asked.result.inputRequests.svc.params), 'approve')
    const again = await roundAt(second.url, 'refund')(back(asked))
    expect(again, JSON.stringify(again)).to.have.nested.property('result.inputRequests')
    expect(billing.refunds).to.deep.equal([])
    await first.vote(idIn(again.result.inputRequests.svc.params), 'approve')
    expect(JSON.stringify(await roundAt(second.url, 'refund')(back(again)))).to.contain('refunded 1')
    for (const state of [asked, again]) await roundAt(second.url, 'refund')(back(state))
    expect(billing.refunds).to.deep.equal([1])
  })

  it('is waited for while the store does not respond', async () => {
    const { redisUrl } = shared().quotas
    const enforcement = { escalations: { adapter: 'redis', redisUrl, timeoutMs: 100 } }
    await using gateway = await startGateway('/mcp/billing', billing.urls.handshake, {
      ...shared(),
      enforcement,
    })
    const client = await startHandClient(gateway.url, {}, bothModes)
    const call = await client.call('refund', { amount: 3 })
    const { params } = await call.request('elicitation/create')
    const failures = async () => {
      const { text } = await gateway.admin('/metrics')
      return Number(/^svc_escalation_store_failures_total (\d+)/m.exec(text)?.[1] ?? 0)
    }
    // A call that did not wait would have had its response after two.
    const isSilent = async () => (await failures()) > 3
    await redis.kill('SIGSTOP')
    try {
      await until(isSilent)
    } finally {
      await redis.kill('SIGCONT')
    }
    await until(async () => (await gateway.vote(idIn(params), 'approve')).status === 200)
    const text = JSON.stringify(await call.response())
    expect(text, text).to.contain('refunded 3')
    expect(billing.refunds).to.deep.equal([3])
  })
})
