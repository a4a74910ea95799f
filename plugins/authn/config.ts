// The `authn` section of the policy (contract.md §2.7), and what it leaves open.

import { isLoopbackHost } from '@svc/core/http'
import { compilePattern, PatternError } from '@svc/core/match'
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

/** RFC 6749 §3.3: a scope-token. It stands in quotes in headers, between spaces. */
const scopeList = z.array(
  z
    .string()
    .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'expected a scope: printable ASCII without spaces, " and \\'),
)

const scopesSchema = z
  .strictObject({
    required: scopeList.default([]).describe('What every call takes.'),
    servers: z
      .record(z.string().min(1), scopeList)
      .default({})
      .describe('Server name in `targets` to what calls of that server take as well.'),
    tools: z
      .record(z.string(), scopeList)
      .superRefine((tools, context) => {
        for (const source of Object.keys(tools)) {
          try {
            compilePattern(source)
          } catch (thrown) {
            if (!(thrown instanceof PatternError)) throw thrown
            context.addIssue({ code: 'custom', path: [source], message: thrown.message })
          }
        }
      })
      .default({})
      .describe(
        'Pattern to what the tools, prompts and resources that it matches take as well; all that match.',
      ),
  })
  .describe('Scopes that a token must have; a call without them is answered 403 insufficient_scope.')

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
    scopeClaim: claimName
      .default('scope')
      .describe('Claim carrying the scopes: one string of scopes separated by spaces, or a list of strings.'),
    scopes: scopesSchema.optional(),
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

  .superRefine(({ allowUnauthenticated, oidc }, context) => {
    if (!allowUnauthenticated || oidc?.scopes === undefined || oidc.scopes.required.length === 0) return
    context.addIssue({
      code: 'custom',
      path: ['allowUnauthenticated'],
      message:
        'lets nobody in, as every call needs the scopes of oidc.scopes.required; leave one of them out',
    })
  })
  .describe('Who may call: bearer tokens, validated against an OpenID Connect issuer.')

export type AuthnConfig = z.output<typeof authnSchema>
export type OidcConfig = NonNullable<AuthnConfig['oidc']>
export type ScopesConfig = NonNullable<OidcConfig['scopes']>
