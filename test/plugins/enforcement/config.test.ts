import { ap2Plugin } from '@svc/plugin-ap2'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'

function mistakes(section: object): string[] {
  const { error } = enforcementPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

describe('enforcement: configuration', () => {
  it('enforces by default', () => {
    expect(enforcementPlugin.schema.parse({})).to.deep.equal({
      mode: 'enforce',
      escalations: { adapter: 'lmdb', timeoutMs: 1000, maxWaitSec: 60 },
    })
  })

  it('runs without its section', () => {
    expect(enforcementPlugin.schema.parse(undefined)).to.deep.equal(enforcementPlugin.schema.parse({}))
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

  it('refuses a token that no stage reports, with the nearest known one', () => {
    expect(checkSection(enforcementPlugin, { deny_on: ['tool_not_in_allowlst'] })).to.deep.equal([
      'mistake enforcement.deny_on.0: no stage reports "tool_not_in_allowlst"; did you mean "tool_not_in_allowlist"?',
    ])
    const declared = { reasons: ['fs_violation_at_night'] }
    expect(checkSection(enforcementPlugin, { escalate_on: ['fs_violation_at_nigt'] }, declared)).to.include(
      'mistake enforcement.escalate_on.0: no stage reports "fs_violation_at_nigt"; did you mean "fs_violation_at_night"?',
    )
  })

  for (const [written, meant] of [
    ['PAYLOAD_TOO_LARGE', 'payload_too_large'],
    ['denylist', 'tool_in_denylist'],
    ['egress', 'egress_violation'],
    ['unpinned', 'version_unpinned'],
    ['too_large', 'payload_too_large'],
    ['missing_idempotency_key', 'idempotency_missing'],
    ['tool_changed', 'tool_definition_changed'],
    ['ap2_bad_sig', 'ap2_bad_signature'],
  ] as const) {
    it(`suggests ${meant} for ${written}, in both lists`, () => {
      const declared = { reasons: ['ap2_bad_signature', 'ap2_expired'] }
      for (const key of ['deny_on', 'escalate_on']) {
        const [mistake] = checkSection(enforcementPlugin, { [key]: [written] }, declared)
        expect(mistake).to.include(`.${key}.0: no stage reports "${written}"; did you mean "${meant}"?`)
      }
    })
  }

  for (const written of ['TOOL_NOT_ALLOWED', 'tool_not_allowed', 'rate_limited']) {
    it(`says that ${written} is an error code`, () => {
      const declared = { reasons: ['ap2_tool_not_allowed'] }
      expect(checkSection(enforcementPlugin, { deny_on: [written] }, declared)).to.deep.equal([
        `mistake enforcement.deny_on.0: no stage reports "${written}"; ${written.toUpperCase()} is an error code; the reason is the denial_reason of the response`,
      ])
    })
  }

  it('refuses it without a guess if nothing known is near, and accepts what a plugin declares', () => {
    const section = { deny_on: ['version_unpinned', 'zz'] }
    expect(checkSection(enforcementPlugin, section)).to.deep.equal([
      'mistake enforcement.deny_on.1: no stage reports "zz"; a custom stage declares its own as `reasons`',
    ])
    expect(checkSection(enforcementPlugin, section, { reasons: ['zz'] })).to.deep.equal([])
  })

  it('knows the built-in tokens, the alias and those of mandates, which the plugin declares', () => {
    const known = ['tool_in_denylist', 'idempotency_missing', 'ap2_expired']
    const { reasons = [] } = ap2Plugin
    expect(checkSection(enforcementPlugin, { deny_on: known }, { reasons })).to.deep.equal([])
  })
})
