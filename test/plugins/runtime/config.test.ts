import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'
import { StageRig } from '../../support/stage-rig.js'

const parse = (enforcement: object) => runtimePlugin.schema.safeParse({ enforcement })
const remote = (over: object) =>
  parse({ mode: 'remote', remote: { endpoint: 'https://runtime.example.com/evaluate', ...over } })

describe('the runtime section', () => {
  it('has defaults: local, deny, and the supported protocol version', () => {
    expect(runtimePlugin.schema.parse({})).to.deep.equal({
      enforcement: { mode: 'local', protocolVersion: '2026-02-01', failureMode: 'deny' },
    })
  })

  it('has defaults for a remote runtime', () => {
    expect(remote({}).data?.enforcement.remote).to.deep.equal({
      endpoint: 'https://runtime.example.com/evaluate',
      timeoutMs: 2000,
      maxRetries: 1,
      retryBackoffMs: 100,
      includeArguments: false,
    })
  })

  const invalid: Readonly<Record<string, object>> = {
    'mode remote without an endpoint': { mode: 'remote' },
    'an empty protocol version': { protocolVersion: '' },
    'an endpoint over plain http': { remote: { endpoint: 'http://runtime.example.com/' } },
    'an endpoint with a password': { remote: { endpoint: 'https://u:p@runtime.example.com/' } },
    'an endpoint with a fragment': { remote: { endpoint: 'https://runtime.example.com/#a' } },
    'an endpoint with another scheme': { remote: { endpoint: 'ftp://runtime.example.com/' } },
    'both apiKey and apiKeyRef': { remote: { apiKey: 'a', apiKeyRef: 'env:A' } },
    'an apiKeyRef that is not a reference': { remote: { apiKeyRef: 'sk-live-1' } },
    'an API key that is not a valid header value': { remote: { apiKey: 'a b\n' } },
    'an API key and an authorization header': { remote: { apiKey: 'a', headers: { Authorization: 'b' } } },
    'a header of the connection': { remote: { headers: { Host: 'evil' } } },
    'a header with a line break': { remote: { headers: { 'x-a': 'a\r\nx-b: c' } } },
    'an invalid header name': { remote: { headers: { 'x a': 'a' } } },
    'a time-out of zero': { remote: { timeoutMs: 0 } },
    'a negative number of retries': { remote: { maxRetries: -1 } },
  }
  it('accepts any protocol version', () => {
    expect(parse({ protocolVersion: '2027-01-01' }).success).to.equal(true)
  })

  for (const [title, enforcement] of Object.entries(invalid)) {
    it(`rejects ${title}`, () => {
      expect(parse(enforcement).success).to.equal(false)
    })
  }

  it('accepts plain http on loopback, and elsewhere only with allowInsecureHttp and a warning', () => {
    expect(parse({ mode: 'remote', remote: { endpoint: 'http://127.0.0.1:1/' } }).success).to.equal(true)
    const section = runtimePlugin.schema.parse({
      enforcement: { mode: 'remote', remote: { endpoint: 'http://runtime/', allowInsecureHttp: true } },
    })
    const rig = new StageRig()
    rig.create(runtimePlugin, section)
    expect(rig.context.warnings).to.deep.equal([
      'runtime.enforcement.remote.endpoint: over plain http, decisions can be forged in transit',
    ])
  })

  it('warns of an endpoint that is never used', () => {
    const warnings = (enforcement: object) => checkSection(runtimePlugin, { enforcement })
    const endpointOnly = { endpoint: 'https://runtime.example.com/' }
    expect(warnings({ remote: endpointOnly })).to.deep.equal([
      'warning runtime.enforcement.remote.endpoint: has no effect without mode: remote',
    ])
    expect(warnings({ mode: 'remote', remote: endpointOnly })).to.deep.equal([])
    expect(warnings({ remote: { timeoutMs: 500 } })).to.deep.equal([])
  })

  it('fails to start with a key reference that can never be read', async () => {
    const section = runtimePlugin.schema.parse({
      enforcement: {
        mode: 'remote',
        remote: { endpoint: 'https://runtime.example.com/', apiKeyRef: 'file:///etc/shadow' },
      },
    })
    await using rig = new StageRig()
    const [start] = await Promise.allSettled([rig.start(runtimePlugin, section)])
    expect(start)
      .to.have.nested.property('reason.message')
      .that.includes('runtime.enforcement.remote.apiKeyRef: the key file')
  })
})
