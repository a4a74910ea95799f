import { type Outcome, publicBaseUrl, Refusal, type Stage } from '@svc/core'
import { authnPlugin, authnSchema } from '@svc/plugin-authn'
import { expect } from 'chai'
import { type CallOverrides, makeCall } from '../../support/call.js'
import { checkSection } from '../../support/check.js'
import { ofEachTest } from '../../support/parts.js'
import { explain, send, served } from '../../support/stage-rig.js'
import { AuthnRig } from './rig.js'

const scopes = {
  required: ['tools'],
  servers: { files: ['files'] },
  tools: { 'files/write_*': ['files.write'], 'write_*': ['write'] },
}

describe('authn: scopes', () => {
  const rig = ofEachTest(() => AuthnRig.start())

  const targets = { files: 'http://127.0.0.1:1', mail: 'http://127.0.0.1:2' }
  const stage = (oidc: object = { scopes }, section: object = {}): Promise<Stage> =>
    rig.stage(oidc, section, { targets })

  async function call(
    gate: Stage,
    claims: object | undefined,
    overrides: CallOverrides = {},
  ): Promise<Outcome> {
    const headers =
      claims === undefined ? {} : { authorization: `Bearer ${await rig.issuer.sign({ ...claims })}` }
    const made = makeCall({ ...overrides, headers })
    made.set(publicBaseUrl, () => 'https://gw.example')
    return (await send(gate, made)).outcome
  }

  const challengeOf = (outcome: Outcome) => String(outcome.headers?.['www-authenticate'])
  const metadata = 'https://gw.example/.well-known/oauth-protected-resource'

  it('accept a token that has them, in a string or a list', async () => {
    const gate = await stage()
    expect(await call(gate, { scope: 'files tools' })).to.equal(served)
    expect(await call(gate, { scope: ['tools', 'files', 'other'] })).to.equal(served)
  })

  it('are read from the claim that the policy names', async () => {
    const gate = await stage({ scopes, scopeClaim: 'scp' })
    expect(await call(gate, { scp: 'files tools' })).to.equal(served)
    expect((await call(gate, { scope: 'files tools' })).kind).to.equal('denied')
  })

  it('that a token lacks are named in a 403, with all that the call requires', async () => {
    const outcome = await call(await stage(), { scope: 'tools' })
    expect(outcome).to.deep.equal({
      kind: 'denied',
      code: 'TOOL_NOT_ALLOWED',
      message: 'The token lacks the scope files.',
      denial: { level: 'gateway', type: 'authn', reason: 'insufficient_scope' },
      headers: {
        'www-authenticate': `Bearer realm="svc", error="insufficient_scope", scope="tools files", resource_metadata="${metadata}/mcp/files", error_description="The token lacks the scope files."`,
      },
    })
  })

  it('are requested together with those that the token has and the policy knows', async () => {
    const outcome = await call(
      await stage(),
      { scope: 'tools files files.write email' },
      { tool: 'write_mail', server: 'mail' },
    )
    expect(challengeOf(outcome)).to.include('scope="tools write files files.write"')
  })

  it('of a server are required on that server alone', async () => {
    const gate = await stage()
    expect(await call(gate, { scope: 'tools' }, { server: 'mail' })).to.equal(served)
    expect((await call(gate, { scope: 'tools' }, { server: 'files' })).kind).to.equal('denied')
  })

  it('of every matching pattern are required', async () => {
    const gate = await stage()
    const write: CallOverrides = { tool: 'write_file' }
    expect((await call(gate, { scope: 'tools files' }, write)).kind).to.equal('denied')
    expect((await call(gate, { scope: 'tools files files.write' }, write)).kind).to.equal('denied')
    expect(await call(gate, { scope: 'tools files files.write write' }, write)).to.equal(served)
    expect(await call(gate, { scope: 'tools files' }, { tool: 'read_file' })).to.equal(served)
  })

  it('of patterns are not required for the open part of the protocol', async () => {
    const gate = await stage({ scopes: { tools: { '*': ['anything'] } } })
    const initialize: CallOverrides = {
      protocol: 'mcp',
      request: { kind: 'protocol', method: 'initialize', name: 'initialize', reference: 'mcp://files/' },
    }
    expect(await call(gate, {}, initialize)).to.equal(served)
    expect((await call(gate, {}, { protocol: 'mcp' })).kind).to.equal('denied')
  })

  it('are required over every protocol', async () => {
    const gate = await stage()
    for (const protocol of ['invoke', 'a2a', 'mcp'] as const) {
      expect((await call(gate, { scope: 'tools' }, { protocol })).kind, protocol).to.equal('denied')
      expect(await call(gate, { scope: 'tools files' }, { protocol }), protocol).to.equal(served)
    }
  })

  it('refuse a request that cannot be parsed', async () => {
    const gate = await stage()
    const read = () => Promise.reject(new Refusal('BAD_REQUEST', 'The body is not JSON.'))
    const error = await call(gate, { scope: 'tools files' }, { read }).catch((reason: unknown) => reason)
    expect(error).to.be.instanceOf(Refusal).with.property('code', 'BAD_REQUEST')
  })

  it('in a claim of the wrong type are refused', async () => {
    const gate = await stage()
    for (const scope of [{ tools: true }, 7, ['tools', ['files']]]) {
      const outcome = await call(gate, { scope })
      expect(outcome).to.include({ kind: 'denied', code: 'UNAUTHENTICATED' })
    }
  })

  it('are ignored with their claim if the policy requires none', async () => {
    expect(await call(await stage({}), { scope: 7 })).to.equal(served)
  })

  it('are named to a caller without a token, or with an invalid one', async () => {
    const gate = await stage()
    expect(challengeOf(await call(gate, undefined))).to.equal(
      `Bearer realm="svc", scope="tools files", resource_metadata="${metadata}/mcp/files"`,
    )
    expect(challengeOf(await call(gate, { org: undefined }))).to.match(
      /^Bearer realm="svc", error="invalid_token", scope="tools files", resource_metadata=".*", error_description="/,
    )
    expect(challengeOf(await call(gate, undefined, { protocol: 'a2a' }))).to.equal(
      `Bearer realm="svc", scope="tools", resource_metadata="${metadata}"`,
    )
  })

  describe('if calls without a token are accepted', () => {
    const open = { allowUnauthenticated: true }

    it('refuse calls that require them', async () => {
      const gate = await stage({ scopes: { servers: { files: ['files'] } } }, open)
      expect(await call(gate, undefined, { server: 'mail' })).to.equal(served)
      const outcome = await call(gate, undefined, { server: 'files' })
      expect(outcome).to.include({
        code: 'UNAUTHENTICATED',
        message: 'A bearer token is required for this call.',
      })
      expect(challengeOf(outcome)).to.include('scope="files"')
      expect(await call(gate, { scope: 'files' }, { server: 'files' })).to.equal(served)
    })

    it('may not be required of every call', () => {
      const section = { ...open, oidc: { ...rig.issuer.oidc, scopes: { required: ['tools'] } } }
      const { error } = authnSchema.safeParse(section)
      expect(error?.issues.map(({ path }) => path.join('.'))).to.deep.equal(['allowUnauthenticated'])
    })
  })

  it('are refused at load if a scope or a pattern is invalid', () => {
    const wrong = [
      { required: ['a b'] },
      { required: [''] },
      { required: ['a"b'] },
      { servers: { files: 'files' } },
      { tools: { 'a/b/c/d': ['x'] } },
    ]
    for (const value of wrong) {
      const section = { oidc: { ...rig.issuer.oidc, scopes: value } }
      expect(authnSchema.safeParse(section).success, JSON.stringify(value)).to.equal(false)
    }
  })

  it('of an unknown server are refused', () => {
    const oidc = { issuer: 'https://id.example', audience: 'a', jwks_uri: 'https://id.example/jwks' }
    const section = { oidc: { ...oidc, scopes: { servers: { flies: ['files'] } } } }
    expect(checkSection(authnPlugin, section, { host: { servers: ['files'] } })).to.deep.equal([
      'mistake authn.oidc.scopes.servers.flies: no target is named "flies"; did you mean "files"? known: files',
    ])
  })

  it('are shown by explain', async () => {
    expect((await explain(await stage())).lines).to.include(
      'requires the scopes tools for every call, files for files, files.write for files/write_*, write for write_*',
    )
  })
})
