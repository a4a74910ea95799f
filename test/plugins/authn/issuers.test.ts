// Several issuers, and the issuers that people have: each preset accepts an access token of the documented form as its
// caller, and refuses the ID token of the same person.
import { services } from '@svc/core'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

type Claims = Record<string, unknown>

interface PresetCase {
  readonly oidc: Claims
  /** What `jwks_uri` is by the preset. */
  readonly keys: string
  readonly access: Claims
  readonly header?: Claims
  readonly id: Claims
  readonly caller: Claims
}

const directory = 'aaaabbbb-0000-cccc-1111-dddd2222eeee'
const entraKeys = `https://login.microsoftonline.com/${directory}/discovery`

const presets: Record<string, PresetCase> = {
  'entra, version 2': {
    oidc: {
      preset: 'entra',
      issuer: `https://login.microsoftonline.com/${directory}/v2.0`,
      audience: 'app-guid',
    },
    keys: `${entraKeys}/v2.0/keys`,
    access: {
      iss: `https://login.microsoftonline.com/${directory}/v2.0`,
      aud: 'app-guid',
      azp: 'client-guid',
      azpacr: '1',
      oid: 'object-guid',
      preferred_username: 'ada@contoso.com',
      roles: ['Tools.Admin'],
      groups: ['group-guid'],
      scp: 'tools.call',
      sub: 'pairwise',
      tid: directory,
      ver: '2.0',
    },
    id: { azp: undefined, azpacr: undefined, aud: 'app-guid' },
    caller: {
      tenant: directory,
      user: 'ada@contoso.com',
      userId: 'object-guid',
      client: 'client-guid',
      roles: ['Tools.Admin', 'group-guid'],
      scopes: ['tools.call'],
    },
  },
  'entra, version 1': {
    oidc: {
      preset: 'entra',
      issuer: `https://sts.windows.net/${directory}/`,
      audience: ['api://app', 'app-guid'],
    },
    keys: `${entraKeys}/keys`,
    access: {
      iss: `https://sts.windows.net/${directory}/`,
      aud: 'api://app',
      appid: 'client-guid',
      appidacr: '1',
      oid: 'object-guid',
      upn: 'ada@contoso.com',
      scp: 'tools.call',
      tid: directory,
      ver: '1.0',
    },
    id: { appid: undefined, appidacr: undefined, aud: 'app-guid' },
    caller: {
      tenant: directory,
      user: 'ada@contoso.com',
      userId: 'object-guid',
      client: 'client-guid',
      roles: [],
    },
  },
  'okta, custom server': {
    oidc: {
      preset: 'okta',
      issuer: 'https://acme.okta.com/oauth2/default',
      audience: 'api://gateway',
      tenant: 'acme',
    },
    keys: 'https://acme.okta.com/oauth2/default/v1/keys',
    access: {
      iss: 'https://acme.okta.com/oauth2/default',
      aud: 'api://gateway',
      cid: 'client-id',
      uid: '00u1',
      sub: 'ada@acme.example',
      groups: ['Everyone'],
      scp: ['openid', 'tools'],
    },
    id: { cid: undefined, uid: undefined, sub: '00u1' },
    caller: {
      tenant: 'acme',
      user: 'ada@acme.example',
      userId: '00u1',
      client: 'client-id',
      roles: ['Everyone'],
      scopes: ['openid', 'tools'],
    },
  },
  auth0: {
    oidc: {
      preset: 'auth0',
      issuer: 'https://acme.eu.auth0.com/',
      audience: 'https://gateway/',
      userClaim: 'https://acme.example/email',
    },
    keys: 'https://acme.eu.auth0.com/.well-known/jwks.json',
    access: {
      iss: 'https://acme.eu.auth0.com/',
      aud: ['https://gateway/', 'https://acme.eu.auth0.com/userinfo'],
      azp: 'client-id',
      sub: 'auth0|6f1c',
      org_id: 'org_1',
      'https://acme.example/email': 'ada@acme.example',
      permissions: ['read:tools'],
      scope: 'openid tools',
    },
    id: { scope: undefined, permissions: undefined },
    caller: {
      tenant: 'org_1',
      user: 'ada@acme.example',
      userId: 'auth0|6f1c',
      client: 'client-id',
      roles: ['read:tools'],
    },
  },
  keycloak: {
    oidc: { preset: 'keycloak', issuer: 'https://id.example/realms/acme', audience: 'gateway' },
    keys: 'https://id.example/realms/acme/protocol/openid-connect/certs',
    access: {
      iss: 'https://id.example/realms/acme',
      aud: ['gateway', 'account'],
      typ: 'Bearer',
      azp: 'client-id',
      sub: '6f1c',
      preferred_username: 'ada',
      organization: { acme: { id: '42' } },
      realm_access: { roles: ['analyst'] },
      scope: 'openid tools',
    },
    id: { typ: 'ID', realm_access: undefined },
    caller: { tenant: 'acme', user: 'ada', userId: '6f1c', client: 'client-id', roles: ['analyst'] },
  },
  cognito: {
    oidc: {
      preset: 'cognito',
      issuer: 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_abc',
      audience: 'client-id',
      tenant: 'acme',
    },
    keys: 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_abc/.well-known/jwks.json',
    access: {
      iss: 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_abc',
      aud: undefined,
      client_id: 'client-id',
      token_use: 'access',
      sub: '6f1c',
      username: 'ada',
      'cognito:groups': ['admin'],
      scope: 'gateway/call',
    },
    id: { aud: 'client-id', token_use: 'id', scope: undefined },
    caller: { tenant: 'acme', user: 'ada', userId: '6f1c', client: 'client-id', roles: ['admin'] },
  },
  google: {
    oidc: { preset: 'google', audience: 'client.apps.googleusercontent.com' },
    keys: 'https://www.googleapis.com/oauth2/v3/certs',
    access: {
      iss: 'accounts.google.com',
      aud: 'client.apps.googleusercontent.com',
      azp: 'client.apps.googleusercontent.com',
      at_hash: 'x',
      sub: '1',
      email: 'ada@acme.example',
      email_verified: true,
      hd: 'acme.example',
    },
    id: { iss: 'https://accounts.google.example' },
    caller: {
      tenant: 'acme.example',
      user: 'ada@acme.example',
      issuer: 'https://accounts.google.com',
      roles: [],
    },
  },
}

describe('authn: presets', () => {
  for (const [name, { oidc, keys, access, header, id, caller }] of Object.entries(presets)) {
    it(`${name}: an access token as documented is accepted, an ID token is not`, async () => {
      await using rig = await AuthnRig.start()
      const asked: string[] = []
      const load = async (uri: string) => {
        asked.push(uri)
        return { keys: rig.issuer.keys }
      }
      rig.useSource({ load })
      const stage = await rig.start(authnPlugin, { oidc })
      const own = { sub: undefined, email: undefined, org: undefined, ...access }

      const { identity } = await present(stage, await rig.issuer.sign(own, { header: header ?? {} }))
      expect(identity).to.deep.include(caller)
      expect(asked).to.deep.equal([keys])

      const refused = await present(stage, await rig.issuer.sign({ ...own, ...id }))
      expect(refusal(refused).code).to.equal('UNAUTHENTICATED')
    })
  }

  it('take a stated key instead of their own', () => {
    const oidc = {
      preset: 'keycloak',
      issuer: 'https://id.example/realms/acme',
      audience: 'a',
      userClaim: 'email',
    }
    expect(authnPlugin.schema.parse({ oidc }).oidc).to.deep.include({
      userClaim: 'email',
      tenantClaim: 'organization',
    })
  })

  it('without a tenant in their tokens need one in the policy', () => {
    const oidc = { preset: 'okta', issuer: 'https://acme.okta.com/oauth2/default', audience: 'a' }
    expect(authnPlugin.schema.safeParse({ oidc }).success).to.equal(false)
    expect(authnPlugin.schema.safeParse({ oidc: { ...oidc, tenantClaim: 'org_name' } }).success).to.equal(
      true,
    )
  })

  it('refuse an organization that is one of several', async () => {
    await using rig = await AuthnRig.start()
    const stage = await rig.stage({ preset: 'keycloak' })
    const claims = { typ: 'Bearer', preferred_username: 'ada' }
    for (const organization of [['acme', 'other'], { acme: {}, other: {} }, []]) {
      const refused = await present(stage, await rig.issuer.sign({ ...claims, organization }))
      expect(why(refused)).to.match(/organization/)
    }
  })
})

describe('authn: an issuer for every directory', () => {
  const issuer = 'https://login.microsoftonline.com/{tenantid}/v2.0'

  async function identityFor(claims: Claims, keyIssuer: string | undefined): Promise<string | undefined> {
    await using rig = await AuthnRig.start()
    const keys = rig.issuer.keys.map((key) => ({ ...key, issuer: keyIssuer }))
    rig.useSource({ load: async () => ({ keys }) })
    const stage = await rig.start(authnPlugin, { oidc: { preset: 'entra', issuer, audience: 'svc-gateway' } })
    const own = { azpacr: '1', azp: 'client', email: undefined, org: undefined, ...claims }
    return (await present(stage, await rig.issuer.sign(own))).identity?.tenant
  }

  const of = (tid: string) => `https://login.microsoftonline.com/${tid}/v2.0`

  it('accepts a token whose tid is the directory in iss, signed by a key for it', async () => {
    for (const key of [undefined, issuer, of('one')])
      expect(await identityFor({ iss: of('one'), tid: 'one' }, key)).to.equal('one')
  })

  it('refuses another directory in iss, in the key, or none', async () => {
    expect(await identityFor({ iss: of('one'), tid: 'two' }, undefined)).to.equal(undefined)
    expect(await identityFor({ iss: of('one'), tid: 'one' }, of('two'))).to.equal(undefined)
    expect(await identityFor({ iss: issuer, tid: '{tenantid}' }, undefined)).to.equal(undefined)
    expect(await identityFor({ iss: of('one') }, undefined)).to.equal(undefined)
  })

  it('has no tenant but tid', () => {
    const oidc = { preset: 'entra', issuer, audience: 'a', tenantClaim: 'org' }
    expect(authnPlugin.schema.safeParse({ oidc }).success).to.equal(false)
  })
})

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
