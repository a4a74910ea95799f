import type { EscalationRule } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { checkSection, type PolicyValues } from '../../../support/check.js'
import { rule } from './rig.js'

function said(
  more: Partial<EscalationRule>,
  policy: PolicyValues,
  section: object = { escalate_on: ['egress_violation'] },
): string[] {
  return checkSection(enforcementPlugin, section, { escalationRule: { ...rule, ...more }, ...policy })
}

const prefix = 'security.side_effects.human_escalation'
const alone = 'without authn.oidc only the admin token votes, which is one person without roles'
const host = { reviewers: { roles: ['reviewer'], approvalSets: {} } }

describe('an escalation rule that applies to no call', () => {
  it('is found if no reason escalates and no runtime is asked', () => {
    for (const section of [{}, { escalate_on: [] }]) {
      expect(said({}, { knowsUsers: true, host }, section)).to.deep.equal([
        'warning enforcement.escalate_on: names no reason, no rule escalates, and no runtime is asked: nothing escalates',
      ])
      expect(said({}, { knowsUsers: true, host, asksRuntime: true }, section)).to.deep.equal([])
      const ruleEscalations = [{ path: ['rules', 0] }]
      expect(said({}, { knowsUsers: true, host, ruleEscalations }, section)).to.deep.equal([])
    }
  })
})

describe('an escalation rule that nobody could satisfy', () => {
  it('is found if only the admin token votes', () => {
    const more = { minApprovals: 2, requiredRoles: ['legal'], approvalSetId: 'set' }
    expect(
      said(more, { host: { reviewers: { approvalSets: { set: { users: ['a', 'b'] } } } } }),
    ).to.deep.equal([
      `mistake ${prefix}.required_roles: never met: ${alone}`,
      `mistake ${prefix}.min_approvals: never reached: ${alone}`,
      `mistake ${prefix}.approval_set_id: none of its members can vote: ${alone}`,
    ])
    expect(said({}, { host: { reviewers: { approvalSets: {} } } })).to.deep.equal([])
  })

  it('is found if users vote and no role may', () => {
    for (const roles of [{}, { roles: [] }]) {
      expect(
        said({}, { knowsUsers: true, host: { reviewers: { ...roles, approvalSets: {} } } }),
      ).to.deep.equal([
        'mistake admin.roles.reviewer: nobody can vote; name the roles that may decide of escalations',
      ])
    }
    expect(said({ minApprovals: 9 }, { knowsUsers: true, host })).to.deep.equal([])
  })

  it('is not found if an approval set votes and no role may', () => {
    const sets = { approvalSets: { set: { users: ['ann'] } } }
    expect(said({ approvalSetId: 'set' }, { knowsUsers: true, host: { reviewers: sets } })).to.deep.equal([])
  })

  it('is found if its approval set is unknown or too small', () => {
    const policy = (approvalSets: object): PolicyValues => ({
      knowsUsers: true,
      host: { reviewers: { roles: ['reviewer'], approvalSets: { ...approvalSets } } },
    })
    const more = { approvalSetId: 'set', minApprovals: 2 }
    expect(said(more, policy({ other: {} }))).to.deep.equal([
      `mistake ${prefix}.approval_set_id: there is no "set" in admin.approval_sets; known: other`,
    ])
    expect(said({ ...more, approvalSetId: 'toString' }, policy({}))).to.have.length(1)
    expect(said(more, policy({ set: { users: ['a', 'a'] } }))).to.deep.equal([
      `mistake ${prefix}.approval_set_id: never satisfied: 2 have to approve, and the set names 1`,
    ])
    expect(said(more, policy({ set: { users: ['a', 'b'] } }))).to.deep.equal([])
    expect(said(more, policy({ set: { roles: ['a'] } }))).to.deep.equal([])
  })

  it('is a warning only without an admin section, as the time-out decides then', () => {
    expect(said({}, { knowsUsers: true })).to.deep.equal([
      `warning ${prefix}: there is no admin section, so nobody can vote: what escalates is rejected when its time is over`,
    ])
    expect(said({ timeoutAction: 'auto_approve' }, {})[0]).to.match(/is approved when its time is over$/)
  })

  it('is not reported if nobody has to vote', () => {
    expect(said({ strategy: 'auto_allow' }, {})).to.deep.equal([])
  })

  it('causes a warning if nothing escalates', () => {
    const check = (section: object) => checkSection(enforcementPlugin, section)
    expect(check({ escalate_on: ['egress_violation'] })).to.deep.equal([
      'warning enforcement.escalate_on: has no effect without security.side_effects.approve_high_risk: true',
    ])
    expect(check({})).to.deep.equal([])
  })
})
