import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { send } from '../../support/stage-rig.js'
import { run, securityStage } from './rig.js'

async function outcomeOf(
  allow_versions: object,
  version: string,
  enforcement: object = {},
  server = 'files',
) {
  const call = makeCall({ version, server, request: { reference: `mcp://${server}/echo@${version}` } })
  const outcome = await run({ security: { allow_versions }, enforcement }, call)
  return { call, outcome }
}

describe('security: versions', () => {
  for (const [allowed, version] of [
    [['1.0.0'], '1.0.0'],
    [['2.*', '1.*'], '1.9.3'],
    [['*'], '0'],
    [['1.*-beta*'], '1.2-beta.3'],
  ] as const) {
    it(`${allowed.join(', ')} allows ${version}`, async () => {
      const { outcome, call } = await outcomeOf({ files: allowed }, version)
      expect(outcome.kind).to.equal('completed')
      expect(call.findings).to.deep.equal([])
    })
  }

  for (const [allowed, version] of [
    [['1.0.0'], '1.0.1'],
    [['1.0.0'], '1.0.00'],
    [['1.*'], '11.0'],
    [['1.*'], '1'],
    [[], '1.0.0'],
    [['*'], 'unversioned'],
    [['unversioned'], 'unversioned'],
  ] as const) {
    it(`[${allowed.join(', ')}] does not allow ${version}`, async () => {
      const { outcome } = await outcomeOf({ files: allowed }, version)
      expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
      expect(outcome).to.have.nested.property('denial.reason', 'version_unpinned')
    })
  }

  it('are reported with the version of the call and those allowed', async () => {
    const { call } = await outcomeOf({ files: ['1.*', '2.0.0'] }, '3')
    expect(call.findings).to.deep.equal([
      {
        reason: 'version_unpinned',
        stage: 'security',
        level: 'gateway',
        detail: 'mcp://files/echo@3 has version 3; allowed are 1.*, 2.0.0',
      },
    ])
  })

  it('are only recorded in observe mode, and if deny_on does not name them', async () => {
    for (const enforcement of [{ mode: 'observe' }, { deny_on: ['payload_too_large'] }]) {
      const { outcome, call } = await outcomeOf({ files: ['1.0.0'] }, '2.0.0', enforcement)
      expect(outcome.kind).to.equal('completed')
      expect(call.findings).to.have.lengthOf(1)
    }
  })

  it('do not restrict a server that is not listed', async () => {
    expect((await outcomeOf({ files: ['1.0.0'] }, 'unversioned', {}, 'mail')).outcome.kind).to.equal(
      'completed',
    )
  })

  it('match a server by its decoded name, in which * is not a wildcard', async () => {
    expect((await outcomeOf({ 'a/b': ['1'] }, '2', {}, 'a%2Fb')).outcome.kind).to.equal('denied')
    expect((await outcomeOf({ 'a/b': ['1'] }, '1', {}, 'a%2Fb')).outcome.kind).to.equal('completed')
    expect((await outcomeOf({ '*': ['1'] }, '2')).outcome.kind).to.equal('completed')
    expect((await outcomeOf({ 'file*': [], files: [] }, '1')).outcome.kind).to.equal('denied')
  })

  for (const version of ['1.0%2F..', '1.0%5Cx', '1.0%40x', '1.0%25', '1.0/x', '1.0 x']) {
    it(`cross no separator: 1.* does not allow ${version}`, async () => {
      expect((await outcomeOf({ files: ['1.*'] }, version)).outcome.kind).to.equal('denied')
    })
  }

  it('apply to prompts and resources, not to protocol requests', async () => {
    const { call } = await send(securityStage({ allow_versions: { files: ['1'] } }))
    expect(call.mayUse('mcp://files/prompts/greet@1', 'prompt')).to.equal(true)
    expect(call.mayUse('mcp://files/prompts/greet@2', 'prompt')).to.equal(false)
    expect(call.mayUse('mcp://files/resources/file:%2F%2Fx@1', 'resource')).to.equal(true)
    expect(call.mayUse('mcp://files/resources/file:%2F%2Fx@2', 'resource')).to.equal(false)
    expect(call.mayUse('mcp://files/', 'protocol')).to.equal(true)
  })
})
