import { type Call, type Finding, type Judgement, judgement, type Outcome, verdict } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'

const served: Outcome = { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: new Uint8Array() }
const notListed: Finding = { reason: 'tool_not_in_allowlist', stage: 'entitlements', level: 'tenant' }

async function handle(section: object, judged: Judgement, ...findings: Finding[]) {
  const stage = enforcementPlugin.create(enforcementPlugin.schema.parse(section), makeContext())
  const call: Call = makeCall()
  for (const finding of findings) call.find(finding)
  call.set(judgement, judged)
  const outcome = await stage.handle(call, async () => served)
  const effects = call.findings.map(({ reason }) => `${reason}: ${call.need(verdict).effectOf(reason)}`)
  return { call, outcome, effects }
}

describe('enforcement of a call that a runtime has judged', () => {
  const told = ['tool_not_in_allowlist']

  it('lets pass what the runtime allows, though deny_on would deny it, and reports the finding', async () => {
    const { outcome, effects } = await handle({}, { action: 'allow', told }, notListed)
    expect(outcome).to.equal(served)
    expect(effects).to.deep.equal(['tool_not_in_allowlist: reported'])
  })

  it('denies what the runtime denies, though nothing was found', async () => {
    const { outcome, effects } = await handle(
      { deny_on: [] },
      { action: 'deny', reason: 'outside office hours', reasons: ['late'], told: [] },
    )
    expect(outcome).to.deep.equal({
      kind: 'denied',
      sent: 'no',
      code: 'TOOL_NOT_ALLOWED',
      message: 'Denied: runtime_denied (runtime, gateway): outside office hours (late).',
      denial: { level: 'gateway', type: 'runtime', reason: 'runtime_denied' },
    })
    expect(effects).to.deep.equal(['runtime_denied: deny'])
  })

  it('reports beside a denial what the runtime was told of', async () => {
    const { outcome, effects } = await handle({}, { action: 'deny', told }, notListed)
    expect(outcome).to.have.nested.property('denial.reason', 'runtime_denied')
    expect(outcome).to.have.property('message').that.does.not.include('tool_not_in_allowlist')
    expect(effects).to.deep.equal(['tool_not_in_allowlist: reported', 'runtime_denied: deny'])
  })

  it('denies with runtime_clarify what the runtime wants to know more of', async () => {
    const { outcome } = await handle({}, { action: 'clarify', told: [] })
    expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(outcome).to.have.nested.property('denial.reason', 'runtime_clarify')
  })

  it('judges by deny_on what the runtime was not told of', async () => {
    const later: Finding = { reason: 'payload_too_large', stage: 'security' }
    const denied = await handle({}, { action: 'allow', told }, notListed, later)
    expect(denied.outcome).to.include({ kind: 'denied', code: 'PAYLOAD_TOO_LARGE' })
    const passed = await handle({ deny_on: [] }, { action: 'allow', told }, notListed, later)
    expect(passed.outcome).to.equal(served)
  })

  for (const action of ['deny', 'clarify', 'escalate'] as const) {
    it(`only records ${action} in observe mode`, async () => {
      const { outcome, effects } = await handle({ mode: 'observe' }, { action, told }, notListed)
      expect(outcome).to.equal(served)
      expect(effects[0]).to.equal('tool_not_in_allowlist: reported')
      expect(effects[1]).to.match(/^runtime_(denied|clarify|escalated): would_deny$/)
    })
  }
})
