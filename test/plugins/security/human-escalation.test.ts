import { bindOwned, type EscalationRule, policyTokens, resolveOptional } from '@svc/core'
import { policySchema } from '@svc/core/policy'
import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import { container } from 'tsyringe'
import { z } from 'zod'
import { accepted, defaults, load } from '../../core/policy/policies.js'
import { checkSection } from '../../support/check.js'

function ruleOf(side_effects: object): EscalationRule | undefined {
  const bindings = container.createChildContainer()
  bindOwned(bindings, securityPlugin, securityPlugin.schema.parse({ side_effects }))
  return resolveOptional(bindings, policyTokens.escalationRule)
}

const issues = (humanEscalation: object) =>
  securityPlugin.schema
    .safeParse({ side_effects: { human_escalation: humanEscalation } })
    .error?.issues.map(({ path, message }) => `${path.slice(2).join('.')}: ${message}`) ?? []

describe('security: human escalation', () => {
  it('has defaults: a quorum of one within 15 minutes', () => {
    expect(ruleOf({ approve_high_risk: true })).to.deep.equal({
      strategy: 'human_quorum',
      timeoutAction: 'auto_reject',
      ttlMs: 900_000,
      minApprovals: 1,
      minRejections: 1,
      requiredRoles: [],
      vetoRoles: [],
      showsArguments: true,
    })
  })

  it('is passed to other sections, in either spelling of its keys', () => {
    const base = 'tenant: acme\naudit: {dir: log}\nsecurity:\n  side_effects:\n    approve_high_risk: true\n'
    const snake = `    human_escalation: {approval_strategy: human_quorum, timeout_action: auto_approve, ttl_sec: 60,
      min_approvals: 2, min_rejections: 3, required_roles: [a], veto_roles: [b], approval_set_id: s,
      severity: low, show_arguments: false, remind_after_sec: 20,
      second_set: {after_sec: 40, approval_set_id: t}}\n`
    const camel = `    humanEscalation: {approvalStrategy: human_quorum, timeoutAction: auto_approve, ttlSec: 60,
      minApprovals: 2, minRejections: 3, requiredRoles: [a], vetoRoles: [b], approvalSetId: s,
      severity: low, showArguments: false, remindAfterSec: 20,
      secondSet: {afterSec: 40, approvalSetId: t}}\n`
    for (const text of [snake, camel]) {
      const policy = accepted(load(base + text, { plugins: [...defaults, securityPlugin] }))
      expect(resolveOptional(policy.container, policyTokens.escalationRule)).to.deep.equal({
        strategy: 'human_quorum',
        timeoutAction: 'auto_approve',
        ttlMs: 60_000,
        minApprovals: 2,
        minRejections: 3,
        requiredRoles: ['a'],
        vetoRoles: ['b'],
        approvalSetId: 's',
        showsArguments: false,
        severity: 'low',
        remindAfterMs: 20_000,
        secondSet: { afterMs: 40_000, setId: 't' },
      })
    }
  })

  it('is for rules alone without approve_high_risk, with a warning if no rule escalates', () => {
    expect(ruleOf({})).to.equal(undefined)
    expect(ruleOf({ approve_high_risk: true })).to.not.have.property('isForRulingsAlone')
    expect(ruleOf({ approve_high_risk: false, human_escalation: {} })?.isForRulingsAlone).to.equal(true)
    const check = (side_effects: object) => checkSection(securityPlugin, { side_effects })
    expect(check({ human_escalation: {} })).to.have.length(1)
    expect(check({ approve_high_risk: true, human_escalation: {} })).to.deep.equal([])
  })

  it('rejects keys that the strategy ignores', () => {
    const quorum = { min_approvals: 2, min_rejections: 2, required_roles: ['a'], veto_roles: ['b'] }
    for (const approval_strategy of ['single_approver', 'auto_allow']) {
      expect(issues({ approval_strategy, ...quorum })).to.deep.equal(
        Object.keys(quorum).map(
          (key) => `${key}: applies only to human_quorum; ${approval_strategy} ignores it`,
        ),
      )
      expect(issues({ approval_strategy, min_approvals: 1, required_roles: [] })).to.deep.equal([])
    }
    expect(issues(quorum)).to.deep.equal([])
  })

  it('rejects steps that never come', () => {
    const second_set = { after_sec: 60, approval_set_id: 't' }
    const late = (number: number) => `never comes: it must be less than ${number}, when the next step is due`
    const ignored = 'applies only if somebody votes; auto_allow ignores it'
    for (const [given, expected] of [
      [{ remind_after_sec: 30, second_set }, []],
      [{ remind_after_sec: 60, second_set }, [`remind_after_sec: ${late(60)}`]],
      [{ remind_after_sec: 900 }, [`remind_after_sec: ${late(900)}`]],
      [{ ttl_sec: 60, second_set }, [`second_set.after_sec: ${late(60)}`]],
      [
        { approval_strategy: 'auto_allow', remind_after_sec: 30, second_set },
        [`remind_after_sec: ${ignored}`, `second_set: ${ignored}`],
      ],
    ] as const) {
      expect(issues(given)).to.deep.equal(expected)
    }
  })

  it('rejects passkeys where what nobody signed would be approved', () => {
    const unsigned = 'approves what no passkey has signed; with `require` it must be auto_reject'
    for (const [given, expected] of [
      [{ require: 'passkey' }, []],
      [{ require: 'passkey', timeout_action: 'auto_approve' }, [`timeout_action: ${unsigned}`]],
      [
        { require: 'passkey', approval_strategy: 'auto_allow' },
        ['require: applies only if somebody votes; auto_allow ignores it'],
      ],
    ] as const) {
      expect(issues(given)).to.deep.equal(expected)
    }
  })

  it('is in the JSON Schema for editors', () => {
    const schema = JSON.stringify(policySchema(z.strictObject({}), [securityPlugin]))
    expect(schema).to.include('human_escalation').and.include('approval_set_id')
  })
})
