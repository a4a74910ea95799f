import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { createStage } from 'svc-sdk/testing'
import { makeContext } from '../../support/context.js'

function mistakes(section: object): string[] {
  const { error } = enforcementPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

function warningsFor(...denyOn: string[]): string[] {
  const context = makeContext()
  createStage(enforcementPlugin, { deny_on: denyOn }, context)
  return context.warnings
}

describe('enforcement: configuration', () => {
  it('enforces by default', () => {
    expect(enforcementPlugin.schema.parse({})).to.deep.equal({
      mode: 'enforce',
      escalations: { adapter: 'lmdb', timeoutMs: 1000, maxWaitSec: 60 },
    })
  })

  it('runs without its section', () => {
    expect(enforcementPlugin.presence).to.equal('always')
  })

  it('refuses a store with settings of another', () => {
    const of = (escalations: object) => mistakes({ escalations }).join('; ')
    expect(of({ redisUrl: 'redis://localhost' })).to.equal(
      'escalations.redisUrl: is for the adapter redis only',
    )
    expect(of({ adapter: 'redis' })).to.equal('escalations.redisUrl: is required by the adapter redis')
    expect(of({ adapter: 'redis', redisUrl: 'redis://localhost', dir: 'x' })).to.equal(
      'escalations.dir: is for the adapter lmdb only',
    )
    expect(of({ adapter: 'memory', redis: {} })).to.equal('escalations.redis: is for the adapter redis only')
    expect(of({ adapter: 'redis', redisUrl: 'redis://localhost', redis: { cluster: true } })).to.equal('')
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

  it('warns of such a token in escalate_on too', () => {
    const context = makeContext()
    createStage(enforcementPlugin, { escalate_on: ['fs_violatoin'] }, context)
    expect(context.warnings).to.deep.equal([
      'enforcement.escalate_on[0]: no built-in stage reports "fs_violatoin"; did you mean "fs_violation"?',
    ])
  })

  it('knows the built-in tokens, the alias and those of mandates', () => {
    expect(warningsFor('tool_in_denylist', 'idempotency_missing', 'ap2_mandate_expired')).to.deep.equal([])
  })
})
