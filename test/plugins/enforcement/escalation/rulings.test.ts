import type { Finding } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { checkSection } from '../../../support/check.js'
import { StageRig, send } from '../../../support/stage-rig.js'
import { type EscalationRig, idOf, type RigOptions, reviewer, rule, startRig, summaryOf } from './rig.js'

/** The finding of a rule that escalates. */
function waits(name: string, setId?: string, text = name): Finding {
  const approval = { digest: text.padEnd(64, '0'), ...(setId === undefined ? {} : { setId }) }
  return { reason: `rule:${name}`, stage: 'rules', detail: `${name} waits`, ruling: 'escalate', approval }
}

const sets = { money: { roles: ['finance'] }, law: { roles: ['legal'] } }
const host = { reviewers: { roles: ['reviewer'], approvalSets: sets } }
const escalating = [{ path: ['rules', 0] }]

const withRules = (options: RigOptions = {}) =>
  startRig({ ...options, policy: { host, ruleEscalations: escalating, ...options.policy } })

const approve = (rig: EscalationRig, id: string, name: string, role: string) =>
  rig.service.vote(id, reviewer(name, [role]), { vote: 'approve' })

describe('a finding that rules that its call escalates', () => {
  it('escalates whatever deny_on, escalate_on and approve_high_risk say', async () => {
    for (const section of [{ deny_on: [], escalate_on: [] }, { deny_on: ['rule:a'] }, {}]) {
      const policies = [{}, { escalationRule: { ...rule, isForRulingsAlone: true as const } }]
      for (const policy of policies) {
        await using rig = await withRules({ section: { escalate_on: undefined, ...section }, policy })
        const outcome = await rig.call({ findings: [waits('a')] })
        expect(outcome).to.deep.include({ code: 'ESCALATION_PENDING' })
        await approve(rig, idOf(outcome), 'ann', 'x')
        expect(summaryOf(await rig.call({ findings: [waits('a')] }))).to.deep.equal({ code: 'sent' })
      }
    }
  })

  it('does not make other findings escalate', async () => {
    const policy = { escalationRule: { ...rule, isForRulingsAlone: true as const } }
    await using rig = await withRules({ policy })
    expect(summaryOf(await rig.call()).code).to.equal('TOOL_NOT_ALLOWED')
  })

  it('is denied if another finding denies, and where nobody can approve', async () => {
    await using rig = await withRules({ section: { escalate_on: [] } })
    const denied: Finding = { reason: 'rule:b', stage: 'rules', ruling: 'deny' }
    expect(summaryOf(await rig.call({ findings: [waits('a'), denied] })).code).to.equal('TOOL_NOT_ALLOWED')
    await using alone = new StageRig()
    const stage = await alone.start(enforcementPlugin)
    const { outcome } = await send(stage, { findings: [waits('a')] })
    expect(outcome).to.include({ code: 'TOOL_NOT_ALLOWED' })
  })

  it('is only recorded in observe mode', async () => {
    await using rig = await withRules({ section: { mode: 'observe', escalate_on: [] } })
    const call = rig.make({ findings: [waits('a')] })
    await rig.through(call, async () => ({
      kind: 'completed',
      status: 200,
      headers: {},
      body: new Uint8Array(),
    }))
    expect(call.judgedFindings()[0]?.effect).to.equal('would_deny')
  })

  it('needs the approval of each set that its rules name', async () => {
    await using rig = await withRules({ section: { escalate_on: [] } })
    const findings = [waits('a', 'money'), waits('b', 'law'), waits('c', 'money')]
    const pending = async () =>
      (await rig.service.list({ status: 'pending', limit: 9 })).map(({ approvalSetId }) => approvalSetId)
    const first = await rig.call({ findings })
    expect((await pending()).sort()).to.deep.equal(['law', 'money'])
    await approve(rig, idOf(first), 'ann', 'finance')
    const second = await rig.call({ findings })
    expect(summaryOf(second)).to.include({ code: 'ESCALATION_PENDING' })
    expect(idOf(second)).to.not.equal(idOf(first))
    expect(await pending()).to.deep.equal(['law'])
    // A member of one set has no vote in the other.
    await expectRefused(approve(rig, idOf(second), 'bob', 'finance'))
    await approve(rig, idOf(second), 'leo', 'legal')
    expect(
      summaryOf(await rig.call({ findings, headers: { 'x-escalation-id': idOf(second) } })),
    ).to.deep.equal({ code: 'sent' })
    // Both approvals are used.
    expect(summaryOf(await rig.call({ findings })).code).to.equal('ESCALATION_PENDING')
    expect(await pending()).to.have.length(2)
  })

  it('uses no approval if one set has not approved', async () => {
    await using rig = await withRules({ section: { escalate_on: [] } })
    const findings = [waits('a', 'money'), waits('b', 'law')]
    const id = idOf(await rig.call({ findings }))
    await approve(rig, id, 'ann', 'finance')
    await rig.call({ findings })
    expect(await rig.service.find(id)).to.include({ status: 'approved', isUsed: false })
    expect(rig.sent).to.deep.equal([])
  })

  it('needs another approval once the text of its rule has changed', async () => {
    await using rig = await withRules({ section: { escalate_on: [] } })
    const before = idOf(await rig.call({ findings: [waits('a', undefined, '1')] }))
    await approve(rig, before, 'ann', 'x')
    const changed = { findings: [waits('a', undefined, '2')] }
    const after = await rig.call(changed)
    expect(summaryOf(after).code).to.equal('ESCALATION_PENDING')
    expect(idOf(after)).to.not.equal(before)
    const named = await rig
      .call({ ...changed, headers: { 'x-escalation-id': before } })
      .catch((error: unknown) => error)
    expect(named).to.include({ code: 'BAD_REQUEST' })
  })
})

describe('a rule that escalates, when a policy is loaded', () => {
  const said = (setId: string | undefined, policy: object = {}) => {
    const path = ['rules', 1]
    const ruleEscalations = [setId === undefined ? { path } : { path, setId }]
    return checkSection(enforcementPlugin, {}, { ruleEscalations, host, knowsUsers: true, ...policy })
  }

  it('is a mistake if its approval set is unknown or nobody in it can vote', () => {
    expect(said('money')).to.deep.equal([])
    expect(said('tax')).to.deep.equal([
      'mistake rules.1.approval_set_id: there is no "tax" in admin.approval_sets; known: money, law',
    ])
    expect(said('money', { knowsUsers: false })).to.have.length(1)
    expect(said(undefined)).to.deep.equal([])
    expect(said(undefined, { host: {} })).to.deep.equal([
      'warning rules.1.then: there is no admin section, so nobody can vote: what escalates is rejected when its time is over',
    ])
  })
})

async function expectRefused(vote: Promise<unknown>): Promise<void> {
  expect(await vote.catch((error: unknown) => error)).to.include({ code: 'NOT_A_REVIEWER' })
}
