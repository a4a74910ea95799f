import { expect } from 'chai'
import { Webhook as Verifier } from 'standardwebhooks'
import { startTestGateway } from '../../../support/gateway.js'
import { startUpstream } from '../../../support/upstream.js'
import { startWebhook, type Webhook } from '../../../support/webhook.js'
import { adminToken } from '../rig.js'

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

  for (const [publicUrl, base] of [
    [undefined, /^http:\/\/localhost:\d+$/],
    ['https://gate.example/ops/', /^https:\/\/gate\.example\/ops$/],
  ] as const) {
    it(`with the page of the escalation ${publicUrl === undefined ? 'on this machine' : 'below admin.publicUrl'}, as an event and as a sentence`, async () => {
      await using events = await startWebhook()
      await using chat = await startWebhook()
      await using gateway = await startTestGateway({
        targets: { billing: 'http://127.0.0.1:1' },
        notices: [{ url: events.url }, { url: chat.url, format: 'text' }],
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', ...(publicUrl === undefined ? {} : { publicUrl }) },
        env: { SVC_ADMIN: adminToken },
        security: { egress_allowlist: [], side_effects: { approve_high_risk: true } },
        enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'memory' } },
      })
      await gateway.invoke('/mcp/billing/pay@1', { url: 'https://evil.example/secret' })
      await Promise.all([events.until(1), chat.until(1)])
      const { data } = eventsOf(events)[0] ?? expect.fail('no event')
      const url = String(data['url'])
      const [before, id] = url.split('/console/approvals/')
      expect(before).to.match(base)
      expect(id).to.equal(data['escalation_id'])
      if (publicUrl === undefined)
        expect(new URL(url).port).to.equal(new URL((await gateway.handle.ready()).adminUrl ?? '').port)
      const { text, ...rest } = JSON.parse(chat.deliveries[0]?.body ?? '')
      expect(rest).to.deep.equal({})
      expect(text.split('\n')[1]).to.equal(url)
      expect(text).to.match(/^Waits for approval: `mcp:\/\/billing\/pay@1`, tenant `acme`, severity `high`,/)
      expect(text).to.not.contain('evil.example')
    })
  }

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
