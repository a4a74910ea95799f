import { type TrustedCaller, trustedCaller } from '@svc/core'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { checkSection } from '../../support/check.js'
import { explain as explainStage } from '../../support/stage-rig.js'
import { AuthnRig } from './rig.js'

const oidc = { issuer: 'https://id.example', audience: 'svc', jwks_uri: 'https://id.example/jwks' }

function mistakes(section: object): string[] {
  const { error } = authnPlugin.schema.safeParse(section)
  // `oidc` is a mapping or a list; these are of the mapping.
  const issues = (error?.issues ?? []).flatMap((issue) =>
    issue.code === 'invalid_union'
      ? (issue.errors[0] ?? []).map(({ path, message }) => ({ path: [...issue.path, ...path], message }))
      : [issue],
  )
  return issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
}

function mistakesOf(part: object): string[] {
  return mistakes({ oidc: { ...oidc, ...part } })
}

describe('authn: configuration', () => {
  it('is closed by default, and runs without its section', () => {
    expect(authnPlugin.schema.parse({})).to.deep.equal({ allowUnauthenticated: false })
    expect(authnPlugin.schema.parse(undefined)).to.deep.equal({ allowUnauthenticated: false })
    expect(checkSection(authnPlugin, {}).join()).to.match(
      /401 UNAUTHENTICATED; set authn\.oidc .* or authn\.allowUnauthenticated: true/,
    )
    for (const open of [{ oidc }, { allowUnauthenticated: true }])
      expect(checkSection(authnPlugin, open)).to.deep.equal([])
  })

  it("has the contract's claim names by default", () => {
    expect(authnPlugin.schema.parse({ oidc }).oidc).to.deep.include({
      tenantClaim: 'org',
      userClaim: 'email',
      rolesClaim: 'roles',
      subjectClaim: 'sub',
    })
  })

  it('needs issuer, audience and jwks_uri', () => {
    expect(mistakes({ oidc: {} }).map((mistake) => mistake.split(':')[0])).to.deep.equal([
      'oidc.issuer',
      'oidc.audience',
      'oidc.jwks_uri',
    ])
  })

  it('refuses unknown keys', () => {
    expect(mistakes({ allowUnauthenticatd: true })).to.have.lengthOf(1)
    expect(mistakesOf({ scope: 'x' })).to.have.lengthOf(1)
    expect(mistakesOf({ jwks: { ttl: 1 } })).to.have.lengthOf(1)
  })

  it('accepts unauthenticated calls only for the value true', () => {
    for (const value of ['true', 1, null])
      expect(mistakes({ allowUnauthenticated: value })).to.have.lengthOf(1)
  })

  it('refuses HMAC and none', () => {
    for (const alg of ['HS256', 'none', 'dir']) expect(mistakesOf({ algorithms: [alg] })).to.have.lengthOf(1)
    expect(mistakesOf({ algorithms: [] })).to.have.lengthOf(1)
  })

  describe('jwks_uri', () => {
    it('is https', () => {
      for (const host of ['id.example', '10.0.0.1', '127.0.0.1.id.example', '128.0.0.1', '[::2]']) {
        expect(mistakesOf({ jwks_uri: `http://${host}/jwks` })).to.deep.equal([
          'oidc.jwks_uri: must be https, because a changed response of this URL lets an attacker issue tokens (http is accepted on a loopback address, or with allowInsecureHttp: true)',
        ])
      }
    })

    it('may be http on loopback, or with allowInsecureHttp', () => {
      for (const host of ['localhost', '127.0.0.1:8080', '127.9.9.9', '[::1]']) {
        expect(mistakesOf({ jwks_uri: `http://${host}/jwks` })).to.deep.equal([])
      }
      expect(mistakesOf({ jwks_uri: 'http://id.example/jwks', allowInsecureHttp: true })).to.deep.equal([])
    })

    it('is an http or https URL without a password', () => {
      for (const uri of ['id.example/jwks', '', 'file:///etc/jwks', 7]) {
        expect(mistakesOf({ jwks_uri: uri })).to.have.lengthOf(1)
      }
      expect(mistakesOf({ jwks_uri: 'https://ada:secret@id.example/' })).to.deep.equal([
        'oidc.jwks_uri: must not contain a user or a password',
      ])
    })
  })

  it('refuses a cooldown longer than maxAgeSec', () => {
    expect(mistakesOf({ jwks: { maxAgeSec: 10, cooldownSec: 11 } })).to.deep.equal([
      'oidc.jwks.cooldownSec: must not be longer than maxAgeSec',
    ])
  })
})

describe('authn: explain', () => {
  let rig: AuthnRig

  beforeEach(async () => {
    rig = await AuthnRig.start()
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  async function explain(section: object, caller?: TrustedCaller['identity']) {
    const stage = rig.create(authnPlugin, section)
    const call = makeCall()
    if (caller !== undefined) call.set(trustedCaller, { identity: caller, scopes: new Set<string>() })
    const { lines, outcome } = await explainStage(stage, call)
    return { said: lines, code: outcome.kind === 'completed' ? 'passed' : outcome.code }
  }

  it('says which token it requires, without a request to the issuer', async () => {
    const caller = { tenant: 'acme', user: 'ada', authenticated: true, roles: [] }
    expect(await explain({ oidc: rig.issuer.oidc }, caller)).to.deep.equal({
      said: [
        `requires a bearer token of ${rig.issuer.issuer} for the audience svc-gateway, its tenant in the claim "org"`,
        'assumes a token of tenant "acme"',
      ],
      code: 'passed',
    })
    expect(rig.issuer.requests).to.equal(0)
  })

  it('says that it refuses every call', async () => {
    const { said, code } = await explain({})
    expect(said).to.have.lengthOf(1)
    expect(said[0]).to.match(/^refuses every call; set authn\.oidc/)
    expect(code).to.equal('UNAUTHENTICATED')
  })

  it('says that calls without a token are accepted', async () => {
    const said = ['accepts calls without a token, as tenant "gateway-tenant"']
    expect(await explain({ allowUnauthenticated: true })).to.deep.equal({ said, code: 'passed' })
  })

  it('warns when calls without a token are accepted beside oidc', async () => {
    await rig.stage({}, { allowUnauthenticated: true })
    expect(rig.context.warnings).to.deep.equal([
      'authn.allowUnauthenticated: calls without a token are accepted, as tenant "gateway-tenant"',
    ])
  })
})
