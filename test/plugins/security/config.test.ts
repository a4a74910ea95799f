import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { checkSection } from '../../support/check.js'
import { explain, served } from '../../support/stage-rig.js'
import { responseOf, securityStage } from './rig.js'

function issues(section: object): string[] {
  const { error } = securityPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

describe('security: configuration', () => {
  it('rejects unknown keys', () => {
    expect(issues({ allowVersion: {} })).to.have.lengthOf(1)
    expect(issues({ limits: { max_payload_mb: 1 } })).to.have.lengthOf(1)
  })

  it('rejects invalid limits', () => {
    for (const limits of [
      { max_payload_kb: 0 },
      { max_payload_kb: -1 },
      { max_payload_kb: '1' },
      { max_duration_ms: 0 },
      { max_duration_ms: 1.5 },
      { max_duration_ms: 2 ** 31 },
    ]) {
      expect(issues({ limits }), JSON.stringify(limits)).to.have.lengthOf(1)
    }
  })

  it('rejects versions that cannot be in a reference, by their path', () => {
    const paths = issues({ allow_versions: { files: ['1', '', '..', '\u0000'] } }).map(
      (m) => m.split(': ')[0],
    )
    expect(paths).to.include('allow_versions.files.1')
    expect(issues({ allow_versions: { files: ['1', '..', '\u0000'] } })).to.have.lengthOf(2)
  })

  it('refuses versions for a server that is not a target', () => {
    const section = { allow_versions: { file: ['1'], files: ['1'] } }
    expect(checkSection(securityPlugin, section, { host: { servers: ['files'] } })).to.deep.equal([
      'mistake security.allow_versions.file: no target is named "file"; did you mean "files"? known: files',
    ])
  })

  it('does nothing without rules', async () => {
    const call = makeCall({ request: { bytes: 1e9 } })
    const response = responseOf(new Uint8Array(10))
    expect(await securityStage({}).handle(call, async () => response)).to.equal(response)
    expect(call.findings).to.deep.equal([])
  })

  it('responds without a promise once the request is parsed', async () => {
    for (const limits of [{}, { max_payload_kb: 1, max_duration_ms: 1000 }]) {
      const call = makeCall({ request: { bytes: 2000 } })
      await call.request()
      const response = served
      expect(securityStage({ limits }).handle(call, () => response)).to.equal(response)
      expect(call.findings).to.have.lengthOf('max_payload_kb' in limits ? 1 : 0)
    }
  })

  describe('explain', () => {
    it('prints the rules and their findings', async () => {
      const section = {
        allow_versions: { files: ['2.*'] },
        limits: { max_payload_kb: 1, max_duration_ms: 50 },
      }
      expect((await explain(securityStage(section), { request: { bytes: 2000 } })).lines).to.deep.equal([
        'version_unpinned: mcp://files/echo@1.0.0 has version 1.0.0; allowed are 2.*',
        'payload_too_large: the request has 2000 bytes, more than 1024',
        'allow_versions: 2.*',
        'max_payload_kb: the request has 2000 bytes; the limit for it and its response is 1024',
        'max_duration_ms: the limit is 50 ms',
      ])
    })

    it('prints when no rule applies', async () => {
      expect((await explain(securityStage({}))).lines).to.deep.equal([
        'no findings before the call is sent',
        'allow_versions: does not apply',
      ])
    })
  })
})
