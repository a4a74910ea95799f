import type { EscalationRule, PolicyFacts } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { checkSection } from '../../../support/check.js'
import { rule } from './rig.js'

function said(
  more: Partial<EscalationRule>,
  facts: PolicyFacts,
  section: object = { escalate_on: ['egress_violation'] },
): string[] {
  return checkSection(enforcementPlugin, section, { escalation: { ...rule, ...more }, ...facts })
}

const prefix = 'security.side_effects.human_escalation'
const alone = 'without authn.oidc only the admin token votes, which is one person without roles'
const reviewers = { roles: ['reviewer'], approvalSets: {} }

describe('an escalation rule that nothing could come to', () => {
  it('is found where no reason escalates and no runtime is asked', () => {
    for (const section of [{}, { escalate_on: [] }]) {
      expect(said({}, { hasOidc: true, reviewers }, section)).to.deep.equal([
        'warning enforcement.escalate_on: names no reason, and no runtime is asked: nothing escalates',
      ])
      expect(said({}, { hasOidc: true, reviewers, asksRuntime: true }, section)).to.deep.equal([])
    }
  })
})

describe('an escalation rule that nobody could satisfy', () => {
  it('is found where only the admin token votes', () => {
    const more = { minApprovals: 2, requiredRoles: ['legal'], approvalSetId: 'set' }
    expect(said(more, { reviewers: { approvalSets: { set: { users: ['a', 'b'] } } } })).to.deep.equal([
      `mistake ${prefix}.required_roles: never met: ${alone}`,
      `mistake ${prefix}.min_approvals: never reached: ${alone}`,
      `mistake ${prefix}.approval_set_id: none of its members can vote: ${alone}`,
    ])
    expect(said({}, { reviewers: { approvalSets: {} } })).to.deep.equal([])
  })

  it('is found where users vote and no role may', () => {
    for (const roles of [{}, { roles: [] }]) {
      expect(said({}, { hasOidc: true, reviewers: { ...roles, approvalSets: {} } })).to.deep.equal([
        'mistake admin.reviewer_roles: nobody can vote; name the roles that may decide of escalations',
      ])
    }
    expect(said({ minApprovals: 9 }, { hasOidc: true, reviewers })).to.deep.equal([])
  })

  it('is not found where an approval set votes and no role may', () => {
    const sets = { approvalSets: { set: { users: ['ann'] } } }
    expect(said({ approvalSetId: 'set' }, { hasOidc: true, reviewers: sets })).to.deep.equal([])
  })

  it('is found where its approval set is unknown or too small', () => {
    const facts = (approvalSets: object): PolicyFacts => ({
      hasOidc: true,
      reviewers: { roles: ['reviewer'], approvalSets: { ...approvalSets } },
    })
    const more = { approvalSetId: 'set', minApprovals: 2 }
    expect(said(more, facts({ other: {} }))).to.deep.equal([
      `mistake ${prefix}.approval_set_id: there is no "set" in admin.approval_sets; known: other`,
    ])
    expect(said({ ...more, approvalSetId: 'toString' }, facts({}))).to.have.length(1)
    expect(said(more, facts({ set: { users: ['a', 'a'] } }))).to.deep.equal([
      `mistake ${prefix}.approval_set_id: never satisfied: 2 have to approve, and the set names 1`,
    ])
    expect(said(more, facts({ set: { users: ['a', 'b'] } }))).to.deep.equal([])
    expect(said(more, facts({ set: { roles: ['a'] } }))).to.deep.equal([])
  })

  it('is a warning only without an admin section, as the time-out decides then', () => {
    expect(said({}, { hasOidc: true })).to.deep.equal([
      `warning ${prefix}: there is no admin section, so nobody can vote: what escalates is rejected when its time is over`,
    ])
    expect(said({ timeoutAction: 'auto_approve' }, {})[0]).to.match(/is approved when its time is over$/)
  })

  it('is not reported if nobody has to vote', () => {
    expect(said({ strategy: 'auto_allow' }, {})).to.deep.equal([])
  })

  it('is warned of where nothing escalates', () => {
    const check = (section: object) => checkSection(enforcementPlugin, section)
    expect(check({ escalate_on: ['egress_violation'] })).to.deep.equal([
      'warning enforcement.escalate_on: nothing escalates without security.side_effects.approve_high_risk: true',
    ])
    expect(check({})).to.deep.equal([])
  })
})
