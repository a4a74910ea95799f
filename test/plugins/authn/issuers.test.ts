// Several issuers, claims at several places, and types of tokens.
import { services } from '@svc/core'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

type Claims = Record<string, unknown>

describe('authn: several issuers', () => {
  async function twoIssuers(first: Claims = {}, second: Claims = {}) {
    const rig = await AuthnRig.start()
    const other = await AuthnRig.start()
    const oidc = [
      { ...rig.issuer.oidc, ...first },
      { ...other.issuer.oidc, audience: 'other-audience', ...second },
    ]
    const stage = await rig.start(authnPlugin, { oidc })
    const signedByOther = (claims: Claims = {}) => other.issuer.sign({ aud: 'other-audience', ...claims })
    return {
      rig,
      other,
      stage,
      signedByOther,
      async [Symbol.asyncDispose]() {
        await rig[Symbol.asyncDispose]()
        await other[Symbol.asyncDispose]()
      },
    }
  }

  it('each accept their tokens, for their audience, by their keys', async () => {
    await using two = await twoIssuers({}, { userClaim: 'name' })
    const { rig, other, stage } = two
    const own = await present(stage, await rig.issuer.sign())
    expect(own.identity).to.deep.include({ user: 'ada@example.com', issuer: rig.issuer.issuer })
    const theirs = await present(stage, await two.signedByOther({ name: 'ada' }))
    expect(theirs.identity).to.deep.include({ user: 'ada', issuer: other.issuer.issuer })
    for (const token of [
      await other.issuer.sign(),
      await rig.issuer.sign({ aud: 'other-audience' }),
      await rig.issuer.sign({ iss: other.issuer.issuer, aud: 'other-audience' }),
      await two.signedByOther({ iss: rig.issuer.issuer, aud: rig.issuer.audience }),
    ])
      expect(refusal(await present(stage, token)).code).to.equal('UNAUTHENTICATED')
  })

  it('are named by the refusal of a third one and of a call without a token', async () => {
    await using two = await twoIssuers()
    const refused = await present(two.stage, await two.rig.issuer.sign({ iss: 'https://third.example' }))
    expect(why(refused)).to.include('"https://third.example"').and.include(two.rig.issuer.issuer)
    expect(why(refused)).to.include(two.other.issuer.issuer)
  })

  it('assert no tenant that another one lists, nor one that they do not list', async () => {
    await using two = await twoIssuers({ tenants: ['acme'] })
    expect((await present(two.stage, await two.rig.issuer.sign())).identity?.tenant).to.equal('acme')
    const foreign = await present(two.stage, await two.signedByOther())
    expect(refusal(foreign)).to.deep.include({ code: 'UNAUTHORIZED_TENANT' })
    expect((await present(two.stage, await two.signedByOther({ org: 'free' }))).identity?.tenant).to.equal(
      'free',
    )
    const unlisted = await present(two.stage, await two.rig.issuer.sign({ org: 'free' }))
    expect(refusal(unlisted)).to.deep.include({ code: 'UNAUTHORIZED_TENANT' })
  })

  it('are not stopped by one whose keys cannot be fetched', async () => {
    await using two = await twoIssuers()
    await two.other.issuer.down()
    const { stage } = two
    await present(stage, await two.signedByOther())
    expect((await present(stage, await two.rig.issuer.sign())).identity?.tenant).to.equal('acme')
    expect(stage.health?.()).to.deep.include({ state: 'warning' })
  })

  it('have their own scopes', async () => {
    await using two = await twoIssuers({}, { scopes: { required: ['tools'] } })
    expect((await present(two.stage, await two.rig.issuer.sign())).outcome.kind).to.not.equal('denied')
    const refused = await present(two.stage, await two.signedByOther())
    expect(refusal(refused)).to.deep.include({ code: 'TOOL_NOT_ALLOWED' })
    const describe = two.rig.serviceOf(two.stage, services.describeResource)
    expect(describe?.([])).to.deep.equal({
      authorization_servers: [two.rig.issuer.issuer, two.other.issuer.issuer],
      scopes_supported: ['tools'],
      bearer_methods_supported: ['header'],
    })
  })

  it('are warned of if each may assert every tenant, and refused if one is there twice', () => {
    const one = { issuer: 'https://a.example', audience: 'a', jwks_uri: 'https://a.example/jwks' }
    const other = { ...one, issuer: 'https://b.example' }
    expect(checkSection(authnPlugin, { oidc: [one, other] }).join()).to.match(/may assert every tenant/)
    expect(checkSection(authnPlugin, { oidc: [{ ...one, tenants: ['a'] }, other] })).to.deep.equal([])
    expect(authnPlugin.schema.safeParse({ oidc: [one, one] }).success).to.equal(false)
  })
})

describe('authn: claims at several places', () => {
  const cases: { title: string; oidc: Claims; claims: Claims; caller: Claims }[] = [
    {
      title: 'roles of two claims add up',
      oidc: { rolesClaim: [['groups'], ['realm_access', 'roles']] },
      claims: { groups: ['a', 'b'], realm_access: { roles: ['b', 'c'] } },
      caller: { roles: ['a', 'b', 'c'] },
    },
    {
      title: 'a path as a list has names with dots',
      oidc: { rolesClaim: ['https://x.example/claims', 'app.roles'] },
      claims: { 'https://x.example/claims': { 'app.roles': ['a'] } },
      caller: { roles: ['a'] },
    },
    {
      title: 'a step into a list takes the member of each object',
      oidc: { rolesClaim: ['memberships', 'role'] },
      claims: { memberships: [{ role: 'a' }, { role: 'b' }] },
      caller: { roles: ['a', 'b'] },
    },
    {
      title: 'the first user claim in the token counts',
      oidc: { userClaim: [['upn'], 'email'] },
      claims: {},
      caller: { user: 'ada@example.com' },
    },
    {
      title: 'a constant tenant needs no claim',
      oidc: { tenant: 'fixed' },
      claims: { org: undefined },
      caller: { tenant: 'fixed' },
    },
    {
      title: 'a user that is the client is a service agent',
      oidc: { userClaim: 'sub' },
      claims: { sub: 'robot', client_id: 'robot' },
      caller: { clientId: 'robot', client: 'robot' },
    },
  ]
  for (const { title, oidc, claims, caller } of cases) {
    it(title, async () => {
      await using rig = await AuthnRig.start()
      const { identity } = await present(await rig.stage(oidc), await rig.issuer.sign(claims))
      expect(identity).to.deep.include(caller)
    })
  }

  it('an entry without the member is refused, as its role is unknown', async () => {
    await using rig = await AuthnRig.start()
    const stage = await rig.stage({ rolesClaim: ['memberships', 'role'] })
    const refused = await present(stage, await rig.issuer.sign({ memberships: [{ role: 'a' }, {}] }))
    expect(why(refused)).to.match(/not every entry has "role"/)
  })
})

describe('authn: the type of a token', () => {
  const complete = { client_id: 'client', iat: 1, jti: 'one' }

  it('can be demanded, as in RFC 9068, with its claims', async () => {
    await using rig = await AuthnRig.start()
    const stage = await rig.stage({ tokenTypes: ['at+jwt'] })
    const typed = { header: { typ: 'at+jwt' } }
    expect((await present(stage, await rig.issuer.sign(complete, typed))).identity?.tenant).to.equal('acme')
    for (const token of [
      await rig.issuer.sign(complete),
      await rig.issuer.sign(complete, { header: { typ: undefined } }),
      await rig.issuer.sign({ ...complete, jti: undefined }, typed),
    ])
      expect(refusal(await present(stage, token)).code).to.equal('UNAUTHENTICATED')
  })
})
