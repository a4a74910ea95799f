import type { ConfigConflict, PolicyFacts } from '@svc/core'
import { expect } from 'chai'
import { z } from 'zod'
import { accepted, defaults, load, loadLayers, mistakesIn, plugin, printed } from './policies.js'

const base = 'tenant: acme\naudit: {dir: log}\n'

const votes = plugin(
  'votes',
  z.strictObject({ min_approvals: z.int().default(1), rules: z.array(z.string()).default([]) }),
  { facts: () => ({ hasOidc: true }) },
)

/** Reports the given contradictions for any policy. */
const critic = (...said: ConfigConflict[]) => plugin('critic', z.strictObject({}), { check: () => said })

describe('facts of a policy', () => {
  it('come from the host and from every section that runs', () => {
    const hostFacts = (): PolicyFacts => ({ reviewers: { roles: ['lead'], approvalSets: {} } })
    const policy = accepted(load(`${base}votes: {}\n`, { plugins: [...defaults, votes], hostFacts }))
    expect(policy.facts).to.deep.equal({ hasOidc: true, reviewers: { roles: ['lead'], approvalSets: {} } })
  })

  it('do not include sections that the policy does not have', () => {
    expect(accepted(load(base, { plugins: [...defaults, votes] })).facts).to.deep.equal({})
  })

  it('let a plugin report a contradiction, at the position in the policy', () => {
    const plugins = [
      ...defaults,
      votes,
      critic({ path: ['votes', 'min_approvals'], message: 'nobody votes' }),
    ]
    const text = `${base}votes:\n  minApprovals: 2\ncritic: {}\n`
    expect(mistakesIn(text, { plugins })).to.deep.equal(['p.yaml:4:3 votes.minApprovals: nobody votes'])
  })

  it('report a contradiction at the nearest existing position', () => {
    const missing = [
      { path: ['votes', 'min_approvals'], message: 'one' },
      { path: ['votes', 'rules', 1], message: 'two' },
      { path: ['votes', 'rules', 0], message: 'three' },
      { path: ['nothing', 'here'], message: 'four' },
    ]
    const plugins = [...defaults, votes, critic(...missing)]
    const text = `${base}votes:\n  rules: [a]\ncritic: {}\n`
    expect(mistakesIn(text, { plugins })).to.deep.equal([
      'p.yaml:1:1 nothing.here: four',
      'p.yaml:3:1 votes.min_approvals: one',
      'p.yaml:4:3 votes.rules[1]: two',
      'p.yaml:4:11 votes.rules[0]: three',
    ])
  })

  it('cause a warning where the plugin only warns', () => {
    const warning = { path: ['critic'], message: 'nobody votes', severity: 'warning' } as const
    const policy = accepted(load(`${base}critic: {}\n`, { plugins: [...defaults, critic(warning)] }))
    expect(policy.warnings.map(({ path, message }) => `${path}: ${message}`)).to.include(
      'critic: nobody votes',
    )
  })

  it('are checked only when every section is valid', () => {
    const plugins = [...defaults, critic({ path: ['critic'], message: 'nobody votes' })]
    expect(mistakesIn('tenant: ""\naudit: {dir: log}\ncritic: {}\n', { plugins })).to.have.length(1)
  })

  it('are not checked before every module is imported', () => {
    const options = {
      plugins: [...defaults, critic({ path: ['critic'], message: 'nobody votes' })],
      customPending: true,
    }
    const text = `${base}critic: {}\nplugins: [{use: ./mine.js}]\n`
    expect(printed(load(text, options))).to.deep.equal([])
  })

  it('have only a path in objects of code', () => {
    const plugins = [...defaults, critic({ path: ['critic', 'x'], message: 'nobody votes' })]
    const object = { tenant: 'acme', audit: { dir: 'log' }, critic: {} }
    expect(printed(loadLayers([{ file: 'options', object }], { plugins }))).to.deep.equal([
      'options critic.x: nobody votes',
    ])
  })
})
