// Rules in a whole gateway: what callers are told, what is recorded, and that nothing is sent that the policy in force denies.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway } from '../../support/gateway.js'
import { ofEachTest } from '../../support/parts.js'
import { until } from '../../support/redis.js'
import { startUpstream } from '../../support/upstream.js'
import { ask } from '../admin/rig.js'

const adminToken = 'a-token-of-the-tests-0123456789'
const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
type Rules = NonNullable<GatewaySettings['rules']>

const refund = (amount: unknown) => ['/mcp/files/refund@1.0.0', { amount }] as const

describe('a gateway with rules', () => {
  const upstream = ofEachTest(() => startUpstream())

  const start = (more: Partial<GatewaySettings>) =>
    startTestGateway((home) => ({
      sec0Dir: home,
      targets: { files: upstream.url },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: adminToken },
      vars: { max: { default: 10, tenants: { acme: 100 } } },
      ...more,
    }))

  it('denies what a rule does not allow, whatever deny_on says, and records why and by which values', async () => {
    const rules = [
      {
        name: 'small',
        tools: ['files/refund'],
        require: 'args.amount <= vars.max',
        then: 'deny',
        message: 'At most 100.',
        keep: ['args.amount', 'args.note'],
      },
    ] satisfies Rules
    await using gateway = await start({ rules, enforcement: { deny_on: [] } })
    expect((await gateway.invoke(...refund(99))).status).to.equal(200)
    const denied = (await (await gateway.invoke(...refund(500))).json()) as object
    expect(denied).to.include({
      error: 'TOOL_NOT_ALLOWED',
      denial_type: 'rules',
      denial_reason: 'rule:small',
      sent: false,
    })
    expect(denied).to.have.property('message', 'Denied: rule:small (rules): At most 100.')
    expect(await (await gateway.invoke(...refund('5'))).json()).to.include({ denial_reason: 'rule:small' })
    expect(upstream.calls).to.have.length(1)
    const [served, refused] = gateway.records()
    expect(served).to.deep.include({
      decided_by: { stage: 'entitlements', pattern: '*' },
      kept: { values: { 'args.amount': 99 }, absent: ['args.note'] },
    })
    expect(refused).to.deep.include({
      decided_by: { stage: 'rules', rule: 'rule:small' },
      kept: { values: { 'args.amount': 500 }, absent: ['args.note'] },
    })
  })

  it('redacts the values that rules keep', async () => {
    const rules = [{ name: 'a', then: 'report', keep: ['args.to', 'args.amount'] }] satisfies Rules
    await using gateway = await start({ rules, privacy: { redact_identities: true } })
    await gateway.invoke('/mcp/files/refund@1.0.0', { to: 'ann@acme.example', amount: 5 })
    const [record] = gateway.records()
    expect(JSON.stringify(record)).to.not.include('ann@acme.example')
    expect(record?.kept?.values['args.amount']).to.equal(5)
  })

  it('does not send a call that waited for a person under a policy that is no longer in force', async () => {
    const waits = { name: 'waits', then: 'escalate' } as const
    await using gateway = await start({ rules: [waits] })
    const { adminUrl = '' } = await gateway.handle.ready()
    const calling = gateway.invoke('/mcp/files/refund@1.0.0', { amount: 5 }, { 'x-escalation-wait': '60' })
    let id = ''
    await until(async () => {
      const { json } = await ask(adminUrl, '/api/escalations?status=pending', { headers })
      id = (json['escalations'] as { id: string }[])[0]?.id ?? ''
      return id !== ''
    })
    await gateway.handle.reload({ rules: [waits, { name: 'never', then: 'deny' }] })
    await ask(adminUrl, `/api/escalations/${id}/votes`, {
      method: 'POST',
      headers,
      body: '{"vote":"approve"}',
    })
    expect(await (await calling).json()).to.include({ error: 'ESCALATION_PENDING', escalation_id: id })
    const repeated = await gateway.invoke(...refund(5), { 'x-escalation-id': id })
    expect(await repeated.json()).to.include({ error: 'TOOL_NOT_ALLOWED', denial_reason: 'rule:never' })
    expect(upstream.calls).to.deep.equal([])
  })

  it('sends an approved call once, and not after its rule has changed', async () => {
    const rule = { name: 'waits', then: 'escalate' } as const
    await using gateway = await start({ rules: [rule] })
    const { adminUrl = '' } = await gateway.handle.ready()
    const approve = async () => {
      const { escalation_id: id } = (await (await gateway.invoke(...refund(5))).json()) as {
        escalation_id: string
      }
      await ask(adminUrl, `/api/escalations/${id}/votes`, {
        method: 'POST',
        headers,
        body: '{"vote":"approve"}',
      })
      return id
    }
    const id = await approve()
    expect((await gateway.invoke(...refund(5))).status).to.equal(200)
    expect(gateway.records().at(-1)).to.deep.include({ decided_by: { stage: 'enforcement', approval: id } })
    await approve()
    await gateway.handle.reload({ rules: [{ ...rule, message: 'Ask the owner.' }] })
    expect(await (await gateway.invoke(...refund(5))).json()).to.include({ error: 'ESCALATION_PENDING' })
    expect(upstream.calls).to.have.length(1)
  })
})
