import { type Call, denied, type Finding, type Outcome, policyTokens, services, verdict } from '@svc/core'
import { enforcementPlugin, escalationService } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { explain as explainStage, StageRig, send, served } from '../../support/stage-rig.js'
import { risky, rule, startRig, TestStore } from './escalation/rig.js'

function callWith(...findings: Finding[]): Call {
  return makeCall({ findings })
}

function stageOf(section: object) {
  return new StageRig().create(enforcementPlugin, section)
}

async function handle(section: object, call: Call): Promise<Outcome> {
  return (await send(stageOf(section), call)).outcome
}

const notListed: Finding = {
  reason: 'tool_not_in_allowlist',
  stage: 'entitlements',
  level: 'tenant',
  detail: 'no allowlist of tenant "acme" matches mcp://files/echo@1.0.0',
}
const tooLarge: Finding = { reason: 'payload_too_large', stage: 'security', level: 'gateway' }

describe('enforcement', () => {
  it('lets a call without findings through and returns the outcome untouched', async () => {
    expect(await handle({}, callWith())).to.equal(served)
  })

  it('denies every finding when the section is left out', async () => {
    const outcome = await handle({}, callWith({ reason: 'something_of_ours', stage: 'custom' }))
    expect(outcome).to.deep.equal(
      denied('TOOL_NOT_ALLOWED', 'Denied: something_of_ours (custom).', {
        denial: { type: 'custom', reason: 'something_of_ours' },
      }),
    )
  })

  it('names the reason and the level of the rule, and says that nothing was sent', async () => {
    expect(await handle({ deny_on: ['tool_not_in_allowlist'] }, callWith(notListed))).to.deep.equal({
      kind: 'denied',
      code: 'TOOL_NOT_ALLOWED',
      message:
        'Denied: tool_not_in_allowlist (entitlements, tenant): no allowlist of tenant "acme" matches mcp://files/echo@1.0.0.',
      denial: { level: 'tenant', type: 'entitlements', reason: 'tool_not_in_allowlist' },
    })
  })

  it('takes the ruling of a stage in place of deny_on and escalate_on', async () => {
    const finding: Finding = { reason: 'ap2_missing', stage: 'ap2', ruling: 'deny' }
    expect(await handle({ deny_on: [] }, callWith(finding))).to.have.property('kind', 'denied')
    expect(await handle({ mode: 'observe' }, callWith(finding))).to.equal(served)
    const report: Finding = { ...finding, ruling: 'report' }
    expect(await handle({ deny_on: ['ap2_missing'] }, callWith(report))).to.equal(served)
  })

  it('responds with the code of the first finding that denies and names all that do', async () => {
    const reported: Finding = { reason: 'version_unpinned', stage: 'security' }
    const outcome = await handle(
      { deny_on: ['payload_too_large', 'tool_not_in_allowlist'] },
      callWith(reported, tooLarge, notListed),
    )
    expect(outcome).to.include({ kind: 'denied', code: 'PAYLOAD_TOO_LARGE' })
    expect(outcome)
      .to.have.property('message')
      .that.matches(/^Denied: payload_too_large \(security, gateway\); tool_not_in_allowlist/)
      .and.does.not.match(/version_unpinned/)
  })

  it('lets a finding pass that deny_on leaves out', async () => {
    expect(await handle({ deny_on: ['version_unpinned'] }, callWith(notListed))).to.equal(served)
  })

  it('denies nothing when deny_on is empty', async () => {
    expect(await handle({ deny_on: [] }, callWith(notListed, tooLarge))).to.equal(served)
  })

  it('denies nothing in observe mode', async () => {
    expect(await handle({ mode: 'observe' }, callWith(notListed, tooLarge))).to.equal(served)
  })

  it('denies for a duration finding with DURATION_EXCEEDED', async () => {
    const outcome = await handle({}, callWith({ reason: 'duration_too_long', stage: 'security' }))
    expect(outcome).to.include({ kind: 'denied', code: 'DURATION_EXCEEDED' })
  })

  it('provides its verdict for findings after the send', async () => {
    const call = callWith()
    let seen: string | undefined
    await stageOf({ deny_on: ['payload_too_large'] }).handle(call, async () => {
      seen = call.need(verdict).effectOf('payload_too_large')
      return served
    })
    expect(seen).to.equal('deny')
  })

  it('filters lists by the same rule', async () => {
    const rule = () => notListed
    const enforced = callWith()
    enforced.addReferenceRule(rule)
    await handle({}, enforced)
    const observed = callWith()
    observed.addReferenceRule(rule)
    await handle({ mode: 'observe' }, observed)
    expect(enforced.mayUse('mcp://files/x@1', 'tool')).to.equal(false)
    expect(observed.mayUse('mcp://files/x@1', 'tool')).to.equal(true)
  })

  describe('explain', () => {
    const explain = (section: object, call: Call) => explainStage(stageOf(section), call)

    it('names the rule and its effect on each finding', async () => {
      const { lines, outcome } = await explain(
        { deny_on: ['payload_too_large'] },
        callWith(notListed, tooLarge),
      )
      expect(lines).to.deep.equal([
        'mode enforce: findings deny for payload_too_large',
        'reported: tool_not_in_allowlist (entitlements, tenant): no allowlist of tenant "acme" matches mcp://files/echo@1.0.0',
        'deny: payload_too_large (security, gateway)',
      ])
      expect(outcome).to.include({ kind: 'denied', code: 'PAYLOAD_TOO_LARGE' })
    })

    it('says that nothing was found, and that observe denies nothing', async () => {
      const { lines, outcome } = await explain({ mode: 'observe', deny_on: [] }, callWith())
      expect(lines).to.deep.equal([
        'mode observe: nothing is denied; otherwise no finding denies (deny_on is empty)',
        'nothing was found: the call goes on',
      ])
      expect(outcome).to.equal(served)
    })

    it('says that every finding denies if deny_on is absent', async () => {
      const { lines } = await explain({}, callWith())
      expect(lines[0]).to.equal('mode enforce: every finding denies (deny_on is absent)')
    })

    describe('of escalations', () => {
      const explained = async (rule: object = {}, findings = [risky]) => {
        await using rig = await startRig({ rule })
        const explanation = await explainStage(rig.stage, rig.make({ findings }))
        expect(await rig.service.list({ limit: 1 })).to.deep.equal([])
        expect(rig.events).to.deep.equal([])
        return explanation
      }

      it('says who would decide and how, without opening an escalation', async () => {
        const rule = { minApprovals: 2, requiredRoles: ['legal'], vetoRoles: ['ops'] }
        const { lines, outcome } = await explained(rule)
        const words =
          'human_quorum of the reviewers of its tenant, 2 to approve, among them the roles legal, 1 to reject, or one of the roles ops; undecided after 900 s it is rejected'
        expect(lines).to.deep.equal([
          'mode enforce: every finding denies (deny_on is absent)',
          `escalates instead for egress_violation: ${words}`,
          'escalate: egress_violation (security, gateway): args.url is at evil.example',
          `would escalate: ${words}`,
        ])
        expect(outcome).to.deep.include({
          code: 'ESCALATION_PENDING',
          denial: { level: 'gateway', type: 'security', reason: 'egress_violation' },
        })
      })

      it('says that auto_allow asks no reviewer', async () => {
        const { lines, outcome } = await explained({ strategy: 'auto_allow' })
        expect(lines.at(-1)).to.equal('would escalate: auto_allow, approved at once and recorded')
        expect(outcome).to.equal(served)
      })

      it('names the approval set and the timeout action', async () => {
        const rule = { strategy: 'single_approver', approvalSetId: 'sec', timeoutAction: 'auto_approve' }
        const { lines } = await explained(rule)
        expect(lines.at(-1)).to.equal(
          'would escalate: single_approver, one vote of the approval set "sec" decides; undecided after 900 s it is approved',
        )
      })

      it('is denied by another finding, and passes without findings', async () => {
        expect((await explained({}, [risky, tooLarge])).outcome).to.include({ code: 'PAYLOAD_TOO_LARGE' })
        expect((await explained({}, [])).outcome).to.equal(served)
      })
    })
  })

  it('opens nothing and offers no service if nothing escalates', async () => {
    await using rig = new StageRig({ stateDir: '/nowhere/at/all' })
    const stage = await rig.start(enforcementPlugin, { escalate_on: ['egress_violation'] })
    expect(stage.health?.()?.reason).to.equal(undefined)
    expect(rig.serviceOf(stage, escalationService)).to.equal(undefined)
    expect(rig.context.resources.size).to.equal(0)
  })

  it('is not ready and refuses calls that escalate while its store fails', async () => {
    const down = new Error('down')
    const store = Object.assign(new TestStore(), { get: () => Promise.reject(down) })
    await using rig = await startRig({ store })
    expect(rig.stage.health?.()?.reason).to.equal(undefined)
    const [call] = await Promise.allSettled([rig.call()])
    expect(call).to.have.nested.property('reason.code', 'STORE_UNAVAILABLE')
    expect(rig.counted).to.deep.equal(['svc_escalation_store_failures_total'])
    expect((await rig.call({ findings: [] })).kind).to.equal('completed')
    await rig.stage.stop?.()
    expect(rig.stage.health?.()?.reason).to.equal('the escalation store is not open')
  })

  it('does not start when its Redis cannot be reached, and releases its resources', async () => {
    await using rig = new StageRig()
    rig.bind(policyTokens.escalationRule, rule)
    rig.bind(services.record, async () => undefined)
    const escalations = {
      adapter: 'redis',
      redisUrl: 'redis://:secret-word@127.0.0.1:1',
      redis: { connectTimeoutMs: 200 },
    }
    const [start] = await Promise.allSettled([rig.start(enforcementPlugin, { escalations })])
    expect(start)
      .to.have.nested.property('reason.message')
      .that.matches(/^Redis cannot be reached/)
      .and.does.not.include('secret-word')
    expect(rig.context.resources.size).to.equal(0)
  })

  it('does not start when no stage records escalations', async () => {
    await using rig = new StageRig()
    rig.bind(policyTokens.escalationRule, rule)
    const [start] = await Promise.allSettled([rig.start(enforcementPlugin)])
    expect(start).to.have.nested.property(
      'reason.message',
      'escalations must be recorded, and no stage records them',
    )
  })
})
