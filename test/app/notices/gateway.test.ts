import { expect } from 'chai'
import { Webhook as Verifier } from 'standardwebhooks'
import { startTestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'
import { startWebhook, type Webhook } from '../../support/webhook.js'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

const eventsOf = (hook: Webhook) =>
  hook.deliveries.map(({ body }) => JSON.parse(body) as { type: string; data: Record<string, unknown> })

describe('a gateway notifies webhooks', () => {
  it('of escalations that open and are decided, without arguments', async () => {
    await using hook = await startWebhook()
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({
      targets: { billing: upstream.url },
      notices: [{ url: hook.url, secretRef: 'env:HOOK_SECRET' }],
      env: { HOOK_SECRET: secret },
      security: {
        egress_allowlist: [],
        side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'auto_allow' } },
      },
      enforcement: { escalate_on: ['egress_violation'] },
    })
    await gateway.invoke('/mcp/billing/pay@1', { url: 'https://evil.example/secret' })
    await hook.until(2)
    for (const { body, headers } of hook.deliveries) {
      expect(body).to.not.contain('evil.example')
      new Verifier(secret).verify(body, headers as Record<string, string>)
    }
    const events = eventsOf(hook)
    expect(events.map(({ type }) => type)).to.have.members(['escalation.opened', 'escalation.decided'])
    expect(events.find(({ type }) => type === 'escalation.decided')?.data).to.deep.include({
      tenant: 'acme',
      tool: 'mcp://billing/pay@1',
      status: 'approved',
      reasons: ['egress_violation'],
    })
  })

  it('of policies that it loads or refuses', async () => {
    await using hook = await startWebhook()
    await using gateway = await startTestGateway({ targets: {}, notices: [{ url: hook.url }] })
    await gateway.handle.reload({})
    await gateway.handle.reload({ quota: {} }).then(
      () => expect.fail('accepted'),
      () => undefined,
    )
    await hook.until(2)
    const events = eventsOf(hook)
    expect(events.map(({ type }) => type)).to.have.members(['policy.reloaded', 'policy.refused'])
    expect(events.find(({ type }) => type === 'policy.refused')?.data['message']).to.contain('quota')
  })
})
