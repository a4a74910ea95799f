// The issuers that people have: each preset accepts an access token of the documented form as its caller, and refuses the ID
// token of the same person.
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
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
