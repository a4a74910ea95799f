// The `authn` section of the policy (contract.md §2.7), and what it leaves open.
import { isLoopbackHost } from '@svc/core'
import { z } from 'zod'

/**
 * Every accepted signature algorithm: asymmetric ones only. A token signed with HMAC could be forged by
 * whoever has the public key, and `none` by anyone (RFC 8725 §2.1).
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

const jwksSchema = z
  .strictObject({
    maxAgeSec: z
      .number()
      .int()
      .min(1)
      .default(600)
      .describe(
        'Seconds for which a fetched key set is used; it is fetched anew, on use, from half of that on.',
      ),
    staleSec: z
      .number()
      .int()
      .min(0)
      .default(3600)
      .describe('Seconds beyond maxAgeSec for which the last key set serves while it cannot be fetched.'),
    cooldownSec: z
      .number()
      .int()
      .min(1)
      .default(30)
      .describe('Least seconds between two fetches made because a token names a key that is not in the set.'),
    timeoutMs: z
      .number()
      .int()
      .min(1)
      .max(60_000)
      .default(5000)
      .describe('Milliseconds after which one fetch of the key set is given up.'),
  })
  .refine((jwks) => jwks.cooldownSec <= jwks.maxAgeSec, {
    path: ['cooldownSec'],
    message: 'must not be longer than maxAgeSec',
  })

const oidcSchema = z
  .strictObject({
    issuer: z.string().min(1).describe("The token's `iss`, compared character by character."),
    audience: z.string().min(1).describe("Must be the token's `aud`, or one of them."),
    jwks_uri: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
      .describe("Address of the issuer's key set (RFC 7517); https, or http on a loopback address."),
    tenantClaim: claimName
      .default('org')
      .describe(
        'Claim carrying the tenant. Claim names may be dotted paths; a claim of the whole name wins.',
      ),
    userClaim: claimName
      .default('email')
      .describe('Claim carrying the user. A token without it is a service agent.'),
    rolesClaim: claimName
      .default('roles')
      .describe('Claim carrying the roles: a list of strings, or one string of roles separated by spaces.'),
    subjectClaim: claimName.default('sub').describe('Claim carrying the subject.'),
    clientIdClaim: claimName
      .optional()
      .describe(
        'Claim naming a service agent; where it is absent: `azp`, `client_id`, `sub`, in this order.',
      ),
    nodeClaim: claimName
      .optional()
      .describe('Claim naming the agent node; only a node named here may use the allowlists of agent_nodes.'),
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
      .describe('Fetch the key set over plain http from a host that is not loopback. For trials only.'),
    jwks: jwksSchema.prefault({}).describe('How the key set is fetched and kept.'),
    tokenCacheSize: z
      .number()
      .int()
      .min(0)
      .max(1_000_000)
      .default(10_000)
      .describe('How many verified tokens are remembered, by hash; 0 remembers none.'),
    tokenCacheSec: z
      .number()
      .int()
      .min(1)
      .default(300)
      .describe('Seconds for which a verified token is remembered, never beyond its `exp`.'),
  })
  .superRefine((oidc, context) => {
    // What is no URL has been told so already.
    if (!URL.canParse(oidc.jwks_uri)) return
    const url = new URL(oidc.jwks_uri)
    if (url.username !== '' || url.password !== '') {
      context.addIssue({ code: 'custom', path: ['jwks_uri'], message: 'must not hold a user or a password' })
    }
    if (url.protocol === 'http:' && !isLoopbackHost(url.hostname) && !oidc.allowInsecureHttp) {
      context.addIssue({
        code: 'custom',
        path: ['jwks_uri'],
        message:
          'must be https: whoever can change what this address answers can issue tokens (http is accepted on a loopback address, or with allowInsecureHttp: true)',
      })
    }
  })

export const authnSchema = z
  .strictObject({
    allowUnauthenticated: z
      .boolean()
      .default(false)
      .describe(
        "Let calls without a bearer token in, as the gateway's own tenant. A token that is present is always validated.",
      ),
    oidc: oidcSchema.optional().describe('Validate bearer tokens of this OpenID Connect issuer.'),
  })
  .describe('Who may call: bearer tokens, validated against an OpenID Connect issuer.')

export type AuthnConfig = z.output<typeof authnSchema>
export type OidcConfig = NonNullable<AuthnConfig['oidc']>
