import { type ExternalDecision, externalDecision, type Finding, verdict } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { StageRig, send, served } from '../../support/stage-rig.js'
import { idOf, startRig } from './escalation/rig.js'

const notListed: Finding = { reason: 'tool_not_in_allowlist', stage: 'entitlements', level: 'tenant' }

async function handle(section: object, judged: ExternalDecision, ...findings: Finding[]) {
  const call = makeCall({ findings })
  call.set(externalDecision, judged)
  const { outcome } = await send(new StageRig().create(enforcementPlugin, section), call)
  const effects = call.findings.map(({ reason }) => `${reason}: ${call.need(verdict).effectOf(reason)}`)
  return { call, outcome, effects }
}

describe('enforcement after a decision of a runtime', () => {
  const considered = ['tool_not_in_allowlist']

  it('passes a call that the runtime allows, though deny_on denies the finding, and reports it', async () => {
    const { outcome, effects } = await handle({}, { action: 'allow', considered }, notListed)
    expect(outcome).to.equal(served)
    expect(effects).to.deep.equal(['tool_not_in_allowlist: reported'])
  })

  it('denies a call that the runtime denies, without findings', async () => {
    const { outcome, effects } = await handle(
      { deny_on: [] },
      { action: 'deny', reason: 'outside office hours', reasons: ['late'], considered: [] },
    )
    expect(outcome).to.deep.equal({
      kind: 'denied',
      code: 'TOOL_NOT_ALLOWED',
      message: 'Denied: runtime_denied (runtime, gateway): outside office hours (late).',
      denial: { level: 'gateway', type: 'runtime', reason: 'runtime_denied' },
    })
    expect(effects).to.deep.equal(['runtime_denied: deny'])
  })

  it('reports the findings that the runtime considered beside its denial', async () => {
    const { outcome, effects } = await handle({}, { action: 'deny', considered }, notListed)
    expect(outcome).to.have.nested.property('denial.reason', 'runtime_denied')
    expect(outcome).to.have.property('message').that.does.not.include('tool_not_in_allowlist')
    expect(effects).to.deep.equal(['tool_not_in_allowlist: reported', 'runtime_denied: deny'])
  })

  it('denies with runtime_clarify when the runtime asks for clarification', async () => {
    const { outcome } = await handle({}, { action: 'clarify', considered: [] })
    expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(outcome).to.have.nested.property('denial.reason', 'runtime_clarify')
  })

  it('applies deny_on to findings that the runtime did not consider', async () => {
    const later: Finding = { reason: 'payload_too_large', stage: 'security' }
    const denied = await handle({}, { action: 'allow', considered }, notListed, later)
    expect(denied.outcome).to.include({ kind: 'denied', code: 'PAYLOAD_TOO_LARGE' })
    const passed = await handle({ deny_on: [] }, { action: 'allow', considered }, notListed, later)
    expect(passed.outcome).to.equal(served)
  })

  for (const action of ['deny', 'clarify', 'escalate'] as const) {
    it(`only records ${action} in observe mode`, async () => {
      const { outcome, effects } = await handle({ mode: 'observe' }, { action, considered }, notListed)
      expect(outcome).to.equal(served)
      expect(effects[0]).to.equal('tool_not_in_allowlist: would_deny')
      expect(effects[1]).to.match(/^runtime_(denied|clarify|escalated): would_deny$/)
    })
  }

  it('gives findings in observe mode the effect that the policy gives them', async () => {
    const observed = { mode: 'observe', deny_on: ['fs_violation'] }
    const found: Finding = { reason: 'fs_violation', stage: 'security' }
    const judged: ExternalDecision = {
      action: 'allow',
      considered: ['fs_violation', 'tool_not_in_allowlist'],
    }
    const { outcome, effects } = await handle(observed, judged, found, notListed)
    expect(outcome).to.equal(served)
    expect(effects).to.deep.equal(['fs_violation: would_deny', 'tool_not_in_allowlist: reported'])
  })

  for (const mode of ['observe', 'enforce'] as const) {
    it(`reports a note of the runtime in ${mode} mode`, async () => {
      const note: Finding = { reason: 'output_redacted', stage: 'runtime' }
      const judged: ExternalDecision = { action: 'allow', considered: [], notes: ['output_redacted'] }
      const { outcome, effects } = await handle({ mode }, judged, note)
      expect(outcome).to.equal(served)
      expect(effects).to.deep.equal(['output_redacted: reported'])
    })
  }

  describe('with escalations', () => {
    it('would deny a finding in escalate_on in observe mode, though the runtime considered it', async () => {
      await using rig = await startRig({ section: { mode: 'observe' } })
      const call = rig.make()
      call.set(externalDecision, { action: 'allow', considered: ['egress_violation'] })
      expect(await rig.through(call, async () => served)).to.equal(served)
      expect(call.need(verdict).effectOf('egress_violation')).to.equal('would_deny')
    })

    const escalate: ExternalDecision = { action: 'escalate', reason: 'unusual amount', considered }

    it('escalates when the runtime escalates, and reports the findings that it considered', async () => {
      await using rig = await startRig({ section: { escalate_on: [] } })
      const call = rig.make({ findings: [notListed] })
      call.set(externalDecision, escalate)
      const outcome = await rig.through(call, () => Promise.reject(new Error('it is not sent')))
      expect(outcome).to.include({ code: 'ESCALATION_PENDING' })
      expect(await rig.service.find(idOf(outcome))).to.include({
        reason: 'runtime_escalated',
        detail: 'unusual amount',
      })
      expect(call.need(verdict).effectOf('runtime_escalated')).to.equal('escalate')
      expect(call.need(verdict).effectOf('tool_not_in_allowlist')).to.equal('reported')
    })

    it('denies a finding that the runtime did not consider, though it escalates', async () => {
      await using rig = await startRig()
      const call = rig.make({ findings: [{ reason: 'fs_violation', stage: 'security' }] })
      call.set(externalDecision, escalate)
      const outcome = await rig.through(call, () => Promise.reject(new Error('it is not sent')))
      expect(outcome).to.include({ code: 'TOOL_NOT_ALLOWED' })
    })

    it('escalates a finding in escalate_on, though the runtime allows the call', async () => {
      await using rig = await startRig()
      const call = rig.make()
      call.set(externalDecision, { action: 'allow', considered: ['egress_violation'] })
      const outcome = await rig.through(call, () => Promise.reject(new Error('it is not sent')))
      expect(outcome).to.include({ code: 'ESCALATION_PENDING' })
    })

    it('denies a call that the runtime denies, though the finding is in escalate_on', async () => {
      await using rig = await startRig()
      const call = rig.make()
      call.set(externalDecision, { action: 'deny', considered: ['egress_violation'] })
      const outcome = await rig.through(call, () => Promise.reject(new Error('it is not sent')))
      expect(outcome).to.include({ code: 'TOOL_NOT_ALLOWED' })
    })
  })

  it('denies a call that the runtime escalates if the policy escalates nothing', async () => {
    const { outcome, effects } = await handle({}, { action: 'escalate', considered: [] })
    expect(outcome).to.include({ code: 'TOOL_NOT_ALLOWED' })
    expect(effects).to.deep.equal(['runtime_escalated: deny'])
  })
})
