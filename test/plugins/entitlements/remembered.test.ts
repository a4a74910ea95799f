import { limits } from '@svc/core'
import { expect } from 'chai'
import { send } from '../../support/stage-rig.js'
import { acme, type Caller, callBy, createEntitlements } from './rig.js'

const section = acme({
  allowlist: ['files/*'],
  roles: {
    dev: { per_tool: { 'files/*': { calls_per_day: 5 } } },
    ops: { denylist: ['files/drop*'], per_tool: { 'files/*': { calls_per_day: 7 } } },
  },
})

describe('entitlements: remembered decisions', () => {
  const stage = createEntitlements(section)
  const decide = async (caller: Caller, tool: string) => {
    const { call } = await send(stage, callBy(caller, { tool }))
    return { reasons: call.findings.map(({ reason }) => reason), limits: call.need(limits) }
  }

  it('give the same call the same list of limits', async () => {
    const first = await decide({ roles: ['dev', 'ops'] }, 'read')
    expect(first.limits.map(({ callsPerDay }) => callsPerDay)).to.deep.equal([5, 7])
    expect((await decide({ roles: ['dev', 'ops'] }, 'read')).limits).to.equal(first.limits)
  })

  it('depend on the caller, the tool and the order of roles', async () => {
    const asked = [
      { roles: ['dev'], tool: 'drop', reasons: [], days: [5] },
      { roles: ['ops'], tool: 'drop', reasons: ['tool_in_denylist'], days: [7] },
      { roles: ['ops'], tool: 'read', reasons: [], days: [7] },
      { roles: ['ops', 'dev'], tool: 'read', reasons: [], days: [7, 5] },
      { roles: ['dev', 'ops'], tool: 'read', reasons: [], days: [5, 7] },
      { roles: [], tool: 'drop', reasons: [], days: [] },
    ]
    for (let round = 0; round < 2; round++) {
      for (const { roles, tool, reasons, days } of asked) {
        const found = await decide({ roles }, tool)
        expect(found.reasons, `${roles} ${tool}`).to.deep.equal(reasons)
        expect(found.limits.map(({ callsPerDay }) => callsPerDay)).to.deep.equal(days)
      }
    }
  })

  it('are limited in number, and correct after they were evicted', async () => {
    const before = await decide({ roles: ['ops'] }, 'drop')
    for (let i = 0; i < 300; i++) await decide({ roles: ['ops'] }, `tool-${i}`)
    const after = await decide({ roles: ['ops'] }, 'drop')
    expect(after).to.deep.equal(before)
    expect(after.limits).to.not.equal(before.limits)
  })

  it('are bounded in the number of combinations', async () => {
    const names = Array.from({ length: 300 }, (_, i) => `role-${i}`)
    const many = createEntitlements(
      acme({
        allowlist: ['*'],
        roles: Object.fromEntries(
          names.map((name, i) => [name, { per_tool: { '*': { calls_per_day: i } } }]),
        ),
      }),
    )
    const limitsOf = async (role: string) => (await send(many, callBy({ roles: [role] }))).call.need(limits)
    const first = await limitsOf('role-1')
    for (const [i, name] of names.entries()) {
      expect((await limitsOf(name)).map(({ callsPerDay }) => callsPerDay)).to.deep.equal([i])
    }
    const again = await limitsOf('role-1')
    expect(again).to.deep.equal(first)
    expect(again).to.not.equal(first)
  })
})
