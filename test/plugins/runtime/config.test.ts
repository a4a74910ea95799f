import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { createStage, fakeContext } from 'svc-sdk/testing'

const parse = (enforcement: object) => runtimePlugin.schema.safeParse({ enforcement })
const remote = (over: object) =>
  parse({ mode: 'remote', remote: { endpoint: 'https://judge.example.com/evaluate', ...over } })

describe('the runtime section', () => {
  it('is local, closed and in the one version when it says nothing', () => {
    expect(runtimePlugin.schema.parse({})).to.deep.equal({
      enforcement: { mode: 'local', protocolVersion: '2026-02-01', failureMode: 'deny' },
    })
  })

  it('has the defaults of decisions §5 for a remote runtime', () => {
    expect(remote({}).data?.enforcement.remote).to.deep.equal({
      endpoint: 'https://judge.example.com/evaluate',
      timeoutMs: 2000,
      maxRetries: 1,
      retryBackoffMs: 100,
      includeArguments: false,
    })
  })

  const wrong: Readonly<Record<string, object>> = {
    'mode remote without an endpoint': { mode: 'remote' },
    'another version of the protocol': { protocolVersion: '2027-01-01' },
    'an endpoint over plain http': { remote: { endpoint: 'http://judge.example.com/' } },
    'an endpoint that holds a password': { remote: { endpoint: 'https://u:p@judge.example.com/' } },
    'an endpoint with a fragment': { remote: { endpoint: 'https://judge.example.com/#a' } },
    'an endpoint of another protocol': { remote: { endpoint: 'ftp://judge.example.com/' } },
    'two keys': { remote: { apiKey: 'a', apiKeyRef: 'env:A' } },
    'a key where its reference belongs': { remote: { apiKeyRef: 'sk-live-1' } },
    'a key that no header can carry': { remote: { apiKey: 'a b\n' } },
    'a key beside an authorization header': { remote: { apiKey: 'a', headers: { Authorization: 'b' } } },
    'a header that the connection sets': { remote: { headers: { Host: 'evil' } } },
    'a header with a line break': { remote: { headers: { 'x-a': 'a\r\nx-b: c' } } },
    'a name that is no header': { remote: { headers: { 'x a': 'a' } } },
    'a time-out of nothing': { remote: { timeoutMs: 0 } },
    'a negative number of retries': { remote: { maxRetries: -1 } },
  }
  for (const [what, enforcement] of Object.entries(wrong)) {
    it(`refuses ${what}`, () => {
      expect(parse(enforcement).success).to.equal(false)
    })
  }

  it('accepts plain http on loopback, and elsewhere only where the policy says so, with a warning', () => {
    expect(parse({ mode: 'remote', remote: { endpoint: 'http://127.0.0.1:1/' } }).success).to.equal(true)
    const section = runtimePlugin.schema.parse({
      enforcement: { mode: 'remote', remote: { endpoint: 'http://judge/', allowInsecureHttp: true } },
    })
    const context = fakeContext('/')
    createStage(runtimePlugin, section, context)
    expect(context.warnings).to.deep.equal([
      'runtime.enforcement.remote.endpoint: over plain http, verdicts can be forged on their way',
    ])
  })

  it('warns of an address that is never asked', () => {
    const said = (enforcement: object) =>
      runtimePlugin
        .check?.(runtimePlugin.schema.parse({ enforcement }), {}, () => false)
        ?.map(({ path, message, severity }) => `${severity} ${path.join('.')}: ${message}`)
    const at = { endpoint: 'https://judge.example.com/' }
    expect(said({ remote: at })).to.deep.equal([
      'warning runtime.enforcement.remote.endpoint: without mode: remote no runtime is asked',
    ])
    expect(said({ mode: 'remote', remote: at })).to.deep.equal([])
    expect(said({ remote: { timeoutMs: 500 } })).to.deep.equal([])
  })

  it('keeps the gateway from starting when its key can never be read', async () => {
    const section = runtimePlugin.schema.parse({
      enforcement: {
        mode: 'remote',
        remote: { endpoint: 'https://judge.example.com/', apiKeyRef: 'file:///etc/shadow' },
      },
    })
    const stage = createStage(runtimePlugin, section, fakeContext('/srv'))
    let said: unknown
    await stage.start?.(new AbortController().signal).catch((fault: unknown) => {
      said = fault
    })
    expect(said)
      .to.have.property('message')
      .that.includes('runtime.enforcement.remote.apiKeyRef: the key file')
  })
})
