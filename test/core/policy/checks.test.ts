import {
  bind,
  type ConfigConflict,
  owned,
  type Plugin,
  policyTokens,
  resolveOptional,
  token,
} from '@svc/core'
import { expect } from 'chai'
import { container as root } from 'tsyringe'
import { z } from 'zod'
import { accepted, defaults, load, loadLayers, mistakesIn, plugin, printed } from './policies.js'

const base = 'tenant: acme\naudit: {dir: log}\n'

const votes = plugin(
  'votes',
  z.strictObject({ min_approvals: z.int().default(1), rules: z.array(z.string()).default([]) }),
  { owns: [owned(policyTokens.knowsUsers, () => true)] },
)

/** Reports the given contradictions for any policy. */
const critic = (...said: ConfigConflict[]) => plugin('critic', z.strictObject({}), { check: () => said })

/** Sections that read each other: each has a mode, and reports that of the other. */
const [left, right] = (['left', 'right'] as const).map((name) => {
  const other = name === 'left' ? 'right' : 'left'
  return plugin(name, z.strictObject({ mode: z.string() }), {
    owns: [owned(token<string>(`${name}/Mode`), ({ mode }: { mode: string }) => mode)],
    check: (_config, bindings) => [
      { path: [name], message: `${other} is ${resolveOptional(bindings, token<string>(`${other}/Mode`))}` },
    ],
  })
}) as [Plugin, Plugin]

describe('what the sections of a policy state', () => {
  it('is bound from the host and from every section that runs', () => {
    const host = { tenant: 'acme' }
    const { container } = accepted(
      load(`${base}votes: {}\n`, {
        plugins: [...defaults, votes],
        policyHost: () => host,
      }),
    )
    expect(resolveOptional(container, policyTokens.knowsUsers)).to.equal(true)
    expect(resolveOptional(container, policyTokens.host)).to.equal(host)
  })

  it('is not bound for a section that the policy does not have', () => {
    const { container } = accepted(load(base, { plugins: [...defaults, votes] }))
    expect(container.isRegistered(policyTokens.knowsUsers, true)).to.equal(false)
  })

  it('is bound in the container of the policy alone, so that the next policy starts without it', () => {
    const bindings = root.createChildContainer()
    const options = { plugins: [...defaults, votes], bindings }
    accepted(load(`${base}votes: {}\n`, options))
    const { container } = accepted(load(base, options))
    expect(container.isRegistered(policyTokens.knowsUsers, true)).to.equal(false)
  })

  it('is known to the checks of two sections that read each other, in either order', () => {
    const text = `${base}left: {mode: on}\nright: {mode: off}\n`
    for (const pair of [
      [left, right],
      [right, left],
    ]) {
      expect(mistakesIn(text, { plugins: [...defaults, ...pair] })).to.deep.equal([
        'p.yaml:3:1 left: right is off',
        'p.yaml:4:1 right: left is on',
      ])
    }
    expect(mistakesIn(`${base}left: {mode: on}\n`, { plugins: [...defaults, left, right] })).to.deep.equal([
      'p.yaml:3:1 left: right is undefined',
    ])
  })

  it('gives way to what code binds', () => {
    const bindings = root.createChildContainer()
    bind(bindings, token<string>('right/Mode'), { useValue: 'bound' })
    const text = `${base}left: {mode: on}\nright: {mode: off}\n`
    expect(mistakesIn(text, { plugins: [...defaults, left, right], bindings })).to.include(
      'p.yaml:3:1 left: right is bound',
    )
  })
})

describe('the checks of a policy', () => {
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

  it('cause a warning if the plugin only warns', () => {
    const warning = { path: ['critic'], message: 'nobody votes', severity: 'warning' } as const
    const policy = accepted(load(`${base}critic: {}\n`, { plugins: [...defaults, critic(warning)] }))
    expect(policy.warnings.map(({ path, message }) => `${path}: ${message}`)).to.include(
      'critic: nobody votes',
    )
  })

  it('run only when every section is valid', () => {
    const plugins = [...defaults, critic({ path: ['critic'], message: 'nobody votes' })]
    expect(mistakesIn('tenant: ""\naudit: {dir: log}\ncritic: {}\n', { plugins })).to.have.length(1)
  })

  it('report only a path in objects of code', () => {
    const plugins = [...defaults, critic({ path: ['critic', 'x'], message: 'nobody votes' })]
    const object = { tenant: 'acme', audit: { dir: 'log' }, critic: {} }
    expect(printed(loadLayers([{ file: 'options', object }], { plugins }))).to.deep.equal([
      'options critic.x: nobody votes',
    ])
  })
})
