import { policyTokens, resolve } from '@svc/core'
import { expect } from 'chai'
import { z } from 'zod'
import {
  accepted,
  audit,
  authn,
  defaults,
  limits,
  load,
  loadHostOf,
  mistakesIn,
  plugin,
  printed,
  who,
} from './policies.js'

const base = 'tenant: acme\naudit: {dir: log}\n'
const mine = plugin('mine', z.strictObject({ word: z.string() }))

describe('plugins of a policy', () => {
  it('are identified by the use of their entry', () => {
    const custom = new Map([['./mine.js', mine]])
    const text = `${base}plugins: [{use: ./mine.js, version: ^1}]\nmine: {word: yes}\n`
    const policy = accepted(load(text, { custom }))
    expect(policy.uses).to.deep.equal([{ use: './mine.js', version: '^1' }])
    expect(policy.plugins.map(({ name }) => name)).to.deep.equal(['audit', 'authn', 'mine'])
  })

  it('are refused in a version outside the range of the policy', () => {
    const custom = new Map([['./mine.js', mine]])
    expect(
      mistakesIn(`${base}plugins: [{use: ./mine.js, version: ^2}]\nmine: {word: a}`, { custom }),
    ).to.deep.equal([
      'p.yaml:3:28 plugins[0].version: plugin "mine" is version 1.2.0, which ^2 does not accept',
    ])
  })

  it('are reported at their entry when they cannot be imported, without further mistakes', () => {
    const custom = new Map([['./mine.js', new Error('"./mine.js" cannot be imported: no such file')]])
    const text = `${base}plugins: [{use: ./mine.js}]\nmine: {word: a}\npipeline: [audit, mine, authn]\n`
    expect(mistakesIn(text, { custom })).to.deep.equal([
      'p.yaml:3:11 plugins[0]: "./mine.js" cannot be imported: no such file',
    ])
  })

  it('leave sections unjudged while a module is missing, save their presence and the keys of the host', () => {
    const text = `plugins: [{use: ./mine.js}]\nmine: {word: 4}\nlimits: {word: 4}\npipeline: [mine]\n`
    expect(printed(loadHostOf(`${base}${text}`))).to.deep.equal([])
    expect(printed(loadHostOf(`tenant: 7\n${text}`))).to.deep.equal([
      'p.yaml:1:1 tenant: 7 is given; accepted is a string that is not empty',
      'p.yaml:1:1 audit: the section "audit" is missing; every policy needs it',
    ])
    const missing = new Map([['./mine.js', new Error('no such file')]])
    expect(mistakesIn(`${base}${text}`, { custom: missing })).to.deep.equal([
      'p.yaml:3:11 plugins[0]: no such file',
    ])
  })

  it('cannot make a required section optional', () => {
    const own = plugin('audit', z.strictObject({}).prefault({}))
    const custom = new Map([['./own.js', own]])
    expect(mistakesIn('tenant: acme\nplugins: [{use: ./own.js}]\n', { custom })).to.deep.equal([
      'p.yaml:1:1 audit: the section "audit" is missing; every policy needs it',
    ])
  })

  it('replace a built-in plugin of the same name', () => {
    const own = plugin('authn', z.strictObject({ key: z.string() }), { provides: authn.provides ?? [] })
    const text = `${base}authn: {key: k}\nlimits: {}\n`
    const policy = accepted(load(text, { plugins: [audit, authn, limits, own] }))
    expect(policy.sections.get('authn')).to.deep.equal({ key: 'k' })
    expect(policy.plugins).to.include(own).and.not.include(authn)
  })

  it('have their reasons bound, also without a section', () => {
    const own = plugin('own', z.strictObject({}), { reasons: ['own_reason'] })
    const { container } = accepted(load(base, { plugins: [audit, own] }))
    expect(resolve(container, policyTokens.reasons)).to.deep.equal(['own_reason'])
  })

  it('are warned about when they are loaded and their section is absent', () => {
    const custom = new Map([['./mine.js', mine]])
    const { warnings } = accepted(load(`${base}authn: {}\nplugins: [{use: ./mine.js}]\n`, { custom }))
    expect(warnings.map(({ message }) => message)).to.include(
      'plugin "mine" is loaded, but the policy has no section "mine": its stage does not run',
    )
  })

  it('report their own mistakes if the policy does not name them', () => {
    const odd = plugin('odd', z.strictObject({}), { version: '1', core: 'any one' })
    expect(mistakesIn(base, { plugins: [...defaults, odd] })).to.deep.equal([
      'p.yaml:1:1 plugins: plugin "odd" has the version "1"; accepted is a semver version such as 1.0.0',
      'p.yaml:1:1 plugins: plugin "odd" names the core range "any one"; accepted is a semver range such as ^1.0.0',
    ])
  })
})

describe('the order of stages', () => {
  it('is the default, with a custom stage in its phase or before enforcement', () => {
    const early = plugin('early', z.strictObject({}), { phase: 'redaction' })
    const policy = accepted(
      load(`${base}early: {}\nmine: {word: a}\n`, { plugins: [...defaults, early, mine] }),
    )
    expect(policy.plugins.map(({ name }) => name)).to.deep.equal(['audit', 'early', 'authn', 'mine'])
  })

  it('has a stage that blocks where `pipeline` leaves it out, and nowhere outside what it reads', () => {
    const blocks = plugin('blocks', z.strictObject({}).prefault({}), {
      phase: 'blocking',
      uses: [who],
    })
    const plugins = [audit, authn, limits, blocks]
    const orderOf = (pipeline: string) =>
      accepted(load(`${base}limits: {}\npipeline: [${pipeline}]\n`, { plugins })).plugins.map(
        ({ name }) => name,
      )
    expect(orderOf('audit, authn, limits')).to.deep.equal(['audit', 'authn', 'blocks', 'limits'])
    expect(orderOf('audit, authn, limits, blocks')).to.deep.equal(['audit', 'authn', 'limits', 'blocks'])
    expect(
      mistakesIn(`${base}limits: {}\npipeline: [audit, blocks, authn, limits]\n`, { plugins }),
    ).to.deep.equal([
      'p.yaml:4:19 pipeline[1]: stage "blocks" reads the slot "who" before "authn" fills it; put "authn" before "blocks"',
    ])
  })

  it('follows `pipeline` if the policy has it', () => {
    const text = `${base}mine: {word: a}\npipeline: [audit, mine, authn]\n`
    const policy = accepted(load(text, { plugins: [...defaults, mine] }))
    expect(policy.plugins.map(({ name }) => name)).to.deep.equal(['audit', 'mine', 'authn'])
  })

  it('reports both stages, at the wrong entry', () => {
    const result = load(`${base}limits: {}\npipeline:\n  - audit\n  - limits\n  - authn\n`)
    expect(printed(result)).to.deep.equal([
      'p.yaml:6:5 pipeline[1]: stage "limits" reads the slot "who" before "authn" fills it; put "authn" before "limits"',
    ])
  })

  it('has no stage that reports findings after the verdict', () => {
    const judge = plugin('judge', z.strictObject({}), { phase: 'decision' })
    const counter = plugin('counter', z.strictObject({}), { phase: 'metering' })
    const late = plugin('late', z.strictObject({}))
    const plugins = [...defaults, judge, counter, late]
    const why =
      'stage "late" can report findings, and "judge" has decided before it; put "late" before "judge", or give its plugin a phase after "decision"'
    const sections = `${base}judge: {}\ncounter: {}\nlate: {}\n`
    const listed = `${sections}pipeline:\n  - audit\n  - authn\n  - judge\n  - late\n  - counter\n`
    expect(mistakesIn(listed, { plugins })).to.deep.equal([`p.yaml:10:5 pipeline[3]: ${why}`])
  })

  it('is checked for the default too, at the section', () => {
    const plugins = [
      audit,
      { ...limits, phase: 'authentication' as const },
      { ...authn, phase: 'metering' as const },
    ]
    expect(mistakesIn(`${base}limits: {}\n`, { plugins })).to.deep.equal([
      'p.yaml:3:1 pipeline: stage "limits" reads the slot "who" before "authn" fills it; put "authn" before "limits"',
    ])
  })
})
