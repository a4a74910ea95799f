import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { decide, type RuntimeHandler, startSetup } from './gateway.js'
import { invoice, respondWith } from './redact/support.js'

describe('require_approval', () => {
  it('escalates an allowed call and does not weaken a denial', async () => {
    for (const [action, reason] of [
      ['allow', 'runtime_escalated'],
      ['deny', 'runtime_denied'],
    ]) {
      await using setup = await startSetup({
        runtime: (response) =>
          decide(response, { action: action ?? '', obligations: [{ type: 'require_approval' }] }),
      })
      expect(await (await setup.call()).json()).to.include({ denial_reason: reason })
      expect(setup.toolRequests).to.deep.equal([])
    }
  })
})

describe('a runtime that escalates', () => {
  const approvals = (strategy: string) => ({
    enforcement: { escalations: { adapter: 'memory' } },
    security: {
      side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: strategy } },
    },
  })
  const runtime: RuntimeHandler = (response) =>
    decide(response, {
      action: 'escalate',
      reason: 'high amount',
      obligations: [{ type: 'redact_output', params: { paths: ['$.customer'] } }],
    })

  it('leaves the call pending', async () => {
    await using setup = await startSetup({
      runtime,
      gateway: approvals('single_approver') as GatewaySettings,
    })
    const response = await setup.call()
    expect(response.status).to.equal(403)
    const body = (await response.json()) as object
    expect(body).to.include({ error: 'ESCALATION_PENDING', escalation_status: 'pending' })
    expect(body).to.have.property('escalation_id').that.is.a('string')
    expect(setup.toolRequests).to.deep.equal([])
  })

  it('applies obligations once the call is approved', async () => {
    await using setup = await startSetup({
      runtime,
      tool: respondWith(invoice),
      gateway: approvals('auto_allow') as GatewaySettings,
    })
    expect(await (await setup.call()).json()).to.include({ id: 'INV-1', customer: '[redacted]' })
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['output_redacted', 'reported'],
      ['runtime_escalated', 'escalate'],
    ])
  })
})
