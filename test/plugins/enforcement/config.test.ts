import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { makeContext } from '../../support/context.js'

function mistakes(section: object): string[] {
  const { error } = enforcementPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

function warningsFor(...denyOn: string[]): string[] {
  const context = makeContext()
  enforcementPlugin.create(enforcementPlugin.schema.parse({ deny_on: denyOn }), context)
  return context.warnings
}

describe('enforcement: configuration', () => {
  it('enforces by default', () => {
    expect(enforcementPlugin.schema.parse({})).to.deep.equal({ mode: 'enforce' })
  })

  it('runs without its section', () => {
    expect(enforcementPlugin.presence).to.equal('always')
  })

  it('refuses escalate_on, even empty, as not available yet', () => {
    expect(mistakes({ escalate_on: [] })).to.deep.equal([
      'escalate_on: escalate_on is not available yet; leave it out',
    ])
  })

  it('refuses another mode, an unknown key and an empty token', () => {
    expect(mistakes({ mode: 'warn' })).to.have.lengthOf(1)
    expect(mistakes({ denyOn: [] })).to.have.lengthOf(1)
    expect(mistakes({ deny_on: [''] })).to.have.lengthOf(1)
  })

  it('warns of a token that no built-in stage reports, with the nearest known one', () => {
    expect(warningsFor('tool_not_in_allowlst')).to.deep.equal([
      'enforcement.deny_on[0]: no built-in stage reports "tool_not_in_allowlst"; did you mean "tool_not_in_allowlist"?',
    ])
  })

  it('warns without a guess where nothing known is near', () => {
    expect(warningsFor('version_unpinned', 'zz')).to.deep.equal([
      'enforcement.deny_on[1]: no built-in stage reports "zz"',
    ])
  })

  it('knows the built-in tokens, the alias and those of mandates', () => {
    expect(warningsFor('tool_in_denylist', 'idempotency_missing', 'ap2_mandate_expired')).to.deep.equal([])
  })
})
