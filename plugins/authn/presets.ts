// Values of `authn.oidc` for the issuers that people have, each from its vendor's documentation of access tokens, and the mark
// that distinguishes an access token from an ID token of the same issuer.
import { isJsonObject, type JsonObject } from '@svc/core/json'

export const presetNames = ['entra', 'okta', 'auth0', 'keycloak', 'cognito', 'google'] as const

export type PresetName = (typeof presetNames)[number]

/** The part of an issuer that stands for the directory of the token; then `tid` equals it. */
export const TENANT_ID = '{tenantid}'

/** The issuer at which people sign in: with any account of an organization, if every directory is accepted. */
export function signInIssuer(issuer: string): string {
  return issuer.replaceAll(TENANT_ID, 'organizations')
}

const isEntraV1 = (issuer: string) => issuer.startsWith('https://sts.windows.net/')

/** The keys of `oidc` that a preset sets, for an issuer. What the policy states takes precedence. */
const values: Record<PresetName, (issuer: string) => JsonObject> = {
  entra: (issuer) => ({
    jwks_uri: entraKeys(issuer),
    tenantClaim: 'tid',
    subjectClaim: 'oid',
    userClaim: isEntraV1(issuer) ? 'upn' : 'preferred_username',
    ...(isEntraV1(issuer) ? { clientIdClaim: 'appid' } : {}),
    rolesClaim: [['roles'], ['groups']],
    scopeClaim: 'scp',
  }),
  okta: (issuer) => ({
    jwks_uri: `${issuer}/v1/keys`,
    subjectClaim: 'uid',
    userClaim: 'sub',
    clientIdClaim: 'cid',
    rolesClaim: 'groups',
    scopeClaim: 'scp',
  }),
  auth0: (issuer) => ({
    jwks_uri: `${issuer}.well-known/jwks.json`,
    tenantClaim: 'org_id',
    rolesClaim: 'permissions',
  }),
  keycloak: (issuer) => ({
    jwks_uri: `${issuer}/protocol/openid-connect/certs`,
    tenantClaim: 'organization',
    userClaim: 'preferred_username',
    rolesClaim: ['realm_access', 'roles'],
  }),
  cognito: (issuer) => ({
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    audienceClaim: 'client_id',
    userClaim: 'username',
    rolesClaim: ['cognito:groups'],
  }),
  google: () => ({
    issuer: 'https://accounts.google.com',
    jwks_uri: 'https://www.googleapis.com/oauth2/v3/certs',
    tenantClaim: 'hd',
    idTokens: 'accept',
  }),
}

function entraKeys(issuer: string): string {
  const [, directory = 'common'] = /^https:\/\/[^/]+\/([^/]+)\//.exec(issuer) ?? []
  const of = directory === TENANT_ID ? 'common' : directory
  return `https://login.microsoftonline.com/${of}/discovery/${isEntraV1(issuer) ? 'keys' : 'v2.0/keys'}`
}

/** `given`, a mapping of `authn.oidc`, with the values of the preset that it names. */
export function withPreset(given: unknown): unknown {
  if (!isJsonObject(given)) return given
  const name = presetNames.find((one) => one === given['preset'])
  if (name === undefined) return given
  const issuer = typeof given['issuer'] === 'string' ? given['issuer'] : ''
  const found = values[name](issuer)
  // The two exclude each other.
  const { tenantClaim: _, ...others } = found
  const preset = given['tenant'] === undefined ? found : others
  return { ...preset, ...given }
}

/** The mark that every access token of an issuer has, and none of its other tokens. */
export interface AccessTokenMark {
  /** As in `a "cid" claim`. */
  readonly name: string
  isIn(claims: Readonly<Record<string, unknown>>, type: string | undefined): boolean
  /** Claims and header type that have the mark, for tokens of `svc policy test`. */
  readonly example: JsonObject
  readonly exampleType?: string
}

const hasClaim = (claim: string, example: string): AccessTokenMark => ({
  name: `a ${JSON.stringify(claim)} claim`,
  isIn: (claims) => Object.hasOwn(claims, claim),
  example: { [claim]: example },
})

/** Undefined if the tokens of the issuer have none, or the policy names no preset. */
export function accessTokenMark(preset: PresetName | undefined, issuer: string): AccessTokenMark | undefined {
  switch (preset) {
    case 'entra':
      return hasClaim(isEntraV1(issuer) ? 'appidacr' : 'azpacr', '1')
    case 'okta':
      return hasClaim('cid', 'client')
    case 'auth0':
      return {
        name: 'the header type at+jwt, a "scope" or a "gty" claim',
        isIn: (claims, type) =>
          type === 'at+jwt' || Object.hasOwn(claims, 'scope') || Object.hasOwn(claims, 'gty'),
        example: {},
        exampleType: 'at+jwt',
      }
    case 'keycloak':
      return {
        name: 'a "typ" claim with Bearer or DPoP',
        isIn: ({ ['typ']: typ }) => typ === 'Bearer' || typ === 'DPoP',
        example: { typ: 'Bearer' },
      }
    case 'cognito':
      return {
        name: 'a "token_use" claim with access',
        isIn: (claims) => claims['token_use'] === 'access',
        example: { token_use: 'access' },
      }
    default:
      return undefined
  }
}

/** The values of `iss` that an issuer uses for itself; the first is its name in records. */
export function issuerNames(preset: PresetName | undefined, issuer: string): readonly string[] {
  return preset === 'google' && issuer === 'https://accounts.google.com'
    ? [issuer, 'accounts.google.com']
    : [issuer]
}
