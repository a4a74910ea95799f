// The `authn` section of the policy.
import { httpUrlSchema, patternsSchema, secureUrlError } from '@svc/core/policy'
import { z } from 'zod'
import { issuerNames, type PresetName, presetNames, TENANT_ID, withPreset } from './presets.js'
import { stdioCallerSchema } from './stdio-caller.js'

/**
 * The accepted signature algorithms, all of them asymmetric: with HMAC a token could be forged with the public key, and
 * with `none` without any key (RFC 8725 §2.1).
 */
const signatureAlgorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const

export type SignatureAlgorithm = (typeof signatureAlgorithms)[number]

const claimName = z.string().min(1)

/** A name or dotted path; a path as a list, for names with dots; or several of these in a list with at least one list. */
const claimPlaces = z.union([claimName, z.array(z.union([claimName, z.array(claimName).min(1)])).min(1)])

const tenantName = z
  .string()
  .regex(/^[^/\\]{1,256}$/, 'expected a name of 1 to 256 characters without slashes')

const oneOrMore = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)])

const jwksSchema = z
  .strictObject({
    maxAgeSec: z
      .number()
      .int()
      .min(1)
      .default(600)
      .describe('Seconds for which a fetched key set is used; from half of that on it is refreshed on use.'),
    staleSec: z
      .number()
      .int()
      .min(0)
      .default(3600)
      .describe('Seconds beyond maxAgeSec for which the last key set is used while it cannot be fetched.'),
    cooldownSec: z
      .number()
      .int()
      .min(1)
      .default(30)
      .describe('Minimum seconds between two fetches for tokens that name an unknown key.'),
    timeoutMs: z
      .number()
      .int()
      .min(1)
      .max(60_000)
      .default(5000)
      .describe('Timeout of one fetch of the key set, in milliseconds.'),
  })
  .refine((jwks) => jwks.cooldownSec <= jwks.maxAgeSec, {
    path: ['cooldownSec'],
    message: 'must not be longer than maxAgeSec',
  })

/** RFC 6749 §3.3: a scope-token. */
const scopeList = z.array(
  z
    .string()
    .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'expected a scope: printable ASCII without spaces, " and \\'),
)

const scopesSchema = z
  .strictObject({
    required: scopeList.default([]).describe('Scopes that every call requires.'),
    servers: z
      .record(z.string().min(1), scopeList)
      .default({})
      .describe('Server name in `targets` to further scopes that its calls require.'),
    tools: patternsSchema(scopeList)
      .default({})
      .describe(
        'Pattern to further scopes that the matching tools, prompts and resources require; all matching patterns apply.',
      ),
  })
  .describe('Scopes that a token must have; a call without them is refused with 403 insufficient_scope.')

const issuerSchema = z
  .strictObject({
    preset: z
      .enum(presetNames)
      .optional()
      .describe(
        'Sets the keys below to what this issuer documents of its access tokens, but for those that the policy states, and refuses tokens without the mark of an access token.',
      ),
    issuer: z
      .string()
      .min(1)
      .describe(
        "The token's `iss`, compared character by character. `{tenantid}` stands for the directory of Entra ID, which the token's `tid` and the key's issuer must name too.",
      ),
    audience: oneOrMore.describe("Must be the token's `aud`, or one of them; several are alternatives."),
    audienceClaim: claimName
      .default('aud')
      .describe('Claim with the audience. `client_id`, for issuers without `aud`, names only the client.'),
    jwks_uri: httpUrlSchema.describe(
      "Address of the issuer's key set (RFC 7517); https, or http on a loopback address.",
    ),
    tenantClaim: claimPlaces
      .default('org')
      .describe(
        'Claim with the tenant: a name or dotted path (a claim whose name is the whole text takes precedence), a path as a list, or a list with lists of several, of which the first in the token counts.',
      ),
    tenant: tenantName.optional().describe('The tenant of all tokens of this issuer, in place of a claim.'),
    tenants: z
      .array(tenantName)
      .min(1)
      .optional()
      .describe('The tenants that this issuer may assert; no other issuer asserts them then.'),
    userClaim: claimPlaces
      .default('email')
      .describe('Claim with the user, as tenantClaim. A token without it is a service agent.'),
    rolesClaim: claimPlaces
      .default('roles')
      .describe(
        'Claims with the roles, as tenantClaim, all of several: a list of strings, or one string of roles separated by spaces.',
      ),
    subjectClaim: claimName.default('sub').describe('Claim with the subject.'),
    clientIdClaim: claimName
      .optional()
      .describe(
        'Claim with the name of a service agent; if it is absent: `azp`, `client_id`, `sub`, in this order.',
      ),
    unitClaim: claimName
      .optional()
      .describe(
        'Claim with a unit of callers, such as a workspace, who share the labels of `protections.flows` with `unit: claim`.',
      ),
    nodeClaim: claimName
      .optional()
      .describe('Claim with the agent node; only a node named by it may use the allowlists of agent_nodes.'),
    scopeClaim: claimName
      .default('scope')
      .describe('Claim with the scopes: one string of scopes separated by spaces, or a list of strings.'),
    scopes: scopesSchema.optional(),
    tokenTypes: z
      .array(z.enum(['at+jwt', 'JWT']))
      .min(1)
      .optional()
      .describe(
        'Accepted `typ` of headers; default: these two and none. `at+jwt` alone demands tokens as in RFC 9068, with all their claims.',
      ),
    idTokens: z
      .enum(['refuse', 'accept'])
      .default('refuse')
      .describe(
        'Whether ID tokens, which are for a client and not for a gateway, count as access tokens; for issuers whose access tokens are not JWTs.',
      ),
    publicClientId: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Id of a client without a secret that is registered at the issuer, for MCP clients that cannot register themselves there; responses to calls without a token name it.',
      ),
    algorithms: z
      .array(z.enum(signatureAlgorithms))
      .min(1)
      .default([...signatureAlgorithms])
      .describe('Accepted signature algorithms.'),
    clockToleranceSec: z
      .number()
      .min(0)
      .max(300)
      .default(5)
      .describe('Seconds by which the clocks of issuer and gateway may differ, for `exp` and `nbf`.'),
    allowInsecureHttp: z
      .boolean()
      .default(false)
      .describe('Allow plain http for the key set from a host that is not loopback. For tests only.'),
    jwks: jwksSchema.prefault({}).describe('How the key set is fetched and cached.'),
    tokenCacheSize: z
      .number()
      .int()
      .min(0)
      .max(1_000_000)
      .default(10_000)
      .describe('Number of verified tokens that are cached, by hash; 0 turns the cache off.'),
    tokenCacheSec: z
      .number()
      .int()
      .min(1)
      .default(300)
      .describe('Seconds for which a verified token is cached, at most until its `exp`.'),
  })
  .superRefine(({ preset, issuer, tenantClaim, tenant, tenants }, context) => {
    const add = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message })
    // Anybody can make a directory, whose other claims say what its owner likes.
    if (issuer.includes(TENANT_ID) && (tenantClaim !== 'tid' || tenant !== undefined))
      add('tenantClaim', `must be tid, as the issuer is every directory (${TENANT_ID})`)
    if (tenant !== undefined && tenants !== undefined && !tenants.includes(tenant))
      add('tenants', 'does not contain the tenant of this issuer')
    if ((preset === 'okta' || preset === 'cognito') && tenant === undefined && tenantClaim === 'org')
      add('tenant', `missing; tokens of ${preset} name no tenant: state it, or a tenantClaim that you added`)
  })
  .superRefine(({ jwks_uri, allowInsecureHttp }, context) => {
    const message = secureUrlError(jwks_uri, {
      because: 'because a changed response of this URL lets an attacker issue tokens',
      insecureKey: 'allowInsecureHttp',
      isInsecureAllowed: allowInsecureHttp,
    })
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['jwks_uri'], message })
  })
  .meta({ setBy: { preset: ['issuer', 'jwks_uri'] } })

type CompleteIssuer = z.input<typeof issuerSchema>

/** With a preset, the keys that it sets may be missing. */
type IssuerInput =
  | CompleteIssuer
  | (Omit<CompleteIssuer, 'preset' | 'issuer' | 'jwks_uri'> &
      Partial<Pick<CompleteIssuer, 'issuer' | 'jwks_uri'>> & { readonly preset: PresetName })

const oneIssuerSchema = z.preprocess((given: IssuerInput) => withPreset(given), issuerSchema)

export const authnSchema = z
  .strictObject({
    allowUnauthenticated: z
      .boolean()
      .default(false)
      .describe(
        "Accept calls without a bearer token, as the gateway's own tenant. A token that is present is always validated.",
      ),
    oidc: z
      .union([oneIssuerSchema, z.array(oneIssuerSchema).min(1)])
      .optional()
      .describe('The OpenID Connect issuer, or a list of issuers, whose bearer tokens are accepted.'),
    stdioCaller: stdioCallerSchema.optional(),
  })
  .superRefine(({ oidc }, context) => {
    const names = issuersOf({ oidc }).flatMap(({ preset, issuer }) => issuerNames(preset, issuer))
    const twice = names.find((name, at) => names.indexOf(name) !== at)
    if (twice === undefined) return
    context.addIssue({ code: 'custom', path: ['oidc'], message: `has the issuer ${twice} twice` })
  })
  .superRefine(({ allowUnauthenticated, oidc }, context) => {
    const issuers = issuersOf({ oidc })
    if (!allowUnauthenticated || issuers.length === 0) return
    if (!issuers.every(({ scopes }) => scopes !== undefined && scopes.required.length > 0)) return
    context.addIssue({
      code: 'custom',
      path: ['allowUnauthenticated'],
      message:
        'has no effect, as every call requires the scopes of oidc.scopes.required; remove one of the two',
    })
  })
  .prefault({})
  .describe(
    'Who may call: bearer tokens, validated against an OpenID Connect issuer. Without the section every call is refused.',
  )

export type AuthnConfig = z.output<typeof authnSchema>
export type OidcConfig = z.output<typeof issuerSchema>
export type ScopesConfig = NonNullable<OidcConfig['scopes']>
export type ClaimPlaces = z.output<typeof claimPlaces>

/** The issuers whose tokens are accepted; none without `oidc`. */
export function issuersOf({ oidc }: Pick<AuthnConfig, 'oidc'>): readonly OidcConfig[] {
  if (oidc === undefined) return []
  return Array.isArray(oidc) ? oidc : [oidc]
}

/** The configured audiences of an issuer. */
export function audiencesOf({ audience }: Pick<OidcConfig, 'audience'>): readonly string[] {
  return typeof audience === 'string' ? [audience] : audience
}
