// The `ap2` section.
import {
  headerNameSchema,
  httpUrlSchema,
  patternSchema,
  patternsSchema,
  secureUrlError,
} from '@svc/core/policy'
import { z } from 'zod'
import { bindingSchema } from './verify/arguments.js'

/** RFC 8725 §3.1: asymmetric algorithms only, chosen by the policy and never by the mandate. */
const algorithms = ['ES256', 'ES384', 'EdDSA'] as const

/** Verified mandates go upstream under the names in the policy; these names have another meaning there. */
const reservedHeaders =
  /^(authorization|proxy-.*|cookie|host|connection|te|trailer|transfer-encoding|upgrade|keep-alive|expect|content-.*|accept.*|traceparent|tracestate|baggage|mcp-.*|(x-)?idempotency-key|x-tenant|x-node-id|x-agent-.*|x-cause-.*|x-escalation-.*)$/

const headerName = headerNameSchema
  .transform((name) => name.toLowerCase())
  .refine((name) => !reservedHeaders.test(name), 'this header has another meaning')

const headersSchema = z
  .strictObject({
    intent: headerName.default('x-ap2-intent-mandate').describe('Header with the intent mandate.'),
    cart: headerName.default('x-ap2-cart-mandate').describe('Header with the cart mandate.'),
    bundle: headerName.default('x-ap2-bundle').describe('Header with several mandates as one JSON object.'),
  })
  .refine(
    ({ intent, cart, bundle }) => new Set([intent, cart, bundle]).size === 3,
    'two headers have one name',
  )
  .prefault({})
  .describe('Request headers of the mandates; over MCP also the members of `params._meta` with these names.')

const jwkSchema = z
  .looseObject({ kty: z.enum(['EC', 'OKP']), crv: z.string(), x: z.string() })
  .refine((key) => !('d' in key), 'is a private key; give the public one')

const pinnedSchema = z
  .strictObject({
    keys: z.array(jwkSchema).min(1).optional().describe('Public keys of the issuer (JWK, RFC 7517).'),
    file: z
      .string()
      .min(1)
      .optional()
      .describe("JSON file with the issuer's key set (`{ keys: [...] }`), relative to the policy."),
  })
  .refine(({ keys, file }) => (keys === undefined) !== (file === undefined), 'give either `keys` or `file`')

const didWebSchema = z
  .strictObject({
    allowPrivate: z
      .boolean()
      .default(false)
      .describe('Allow hosts of `did:web` with private and loopback addresses.'),
    caFile: z
      .string()
      .min(1)
      .optional()
      .describe('PEM file with the certificate authority of these hosts, relative to the policy.'),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(5000)
      .describe('Timeout of fetching a DID document, in milliseconds.'),
    maxAgeSec: z
      .int()
      .min(1)
      .max(86_400)
      .default(300)
      .describe('Seconds for which a fetched DID document is used.'),
  })
  .prefault({})
  .describe('How documents of `did:web` are fetched.')

const trustSchema = z
  .strictObject({
    didMethods: z
      .array(
        z
          .string()
          .regex(/^(did:)?[a-z0-9]+$/, 'expected the name of a DID method, such as web')
          .transform((method) => method.replace(/^did:/, '')),
      )
      .optional()
      .describe('Allowed DID methods, such as `web` or `did:web`; absent: every method that has a resolver.'),
    issuersAllowlist: z
      .array(z.string().min(1))
      .optional()
      .describe('Issuers whose mandates are accepted; absent: those in `issuers`.'),
    issuers: z
      .record(z.string().min(1), pinnedSchema)
      .default({})
      .describe('Issuer to its public keys. They are used in place of any other source.'),
    algorithms: z
      .array(z.enum(algorithms))
      .min(1)
      .default([...algorithms])
      .describe('Accepted signature algorithms.'),
    audiences: z
      .array(z.string().min(1))
      .min(1)
      .optional()
      .describe(
        'Accepted audiences of mandates; absent: the name of the server in `targets`, and the URL of the gateway.',
      ),
    clockSkewSec: z
      .number()
      .min(0)
      .max(3600)
      .default(30)
      .describe('Seconds by which the clocks of issuer and gateway may differ.'),
    didWeb: didWebSchema,
  })
  .prefault({})
  .describe('Which issuers of mandates are trusted.')

const bindSchema = patternsSchema(bindingSchema)
  .default({})
  .describe(
    'Pattern to the pointers at which arguments of the matching tools have what mandates bound; the most specific pattern applies.',
  )

const toolsSchema = z
  .strictObject({
    allow: z
      .array(patternSchema)
      .optional()
      .describe(
        'Patterns of the tools that mandates apply to; absent: all tools. In the modes `partial` and `full`, calls with side effects of other tools are refused.',
      ),
    bind: bindSchema,
  })
  .prefault({})
  .describe('Which tools mandates apply to, and which of their arguments mandates bound.')

export const ap2Schema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Verify mandates.'),
    role: z
      .enum(['merchant', 'payment'])
      .default('merchant')
      .describe(
        'Whose server the gateway is in front of: of a `merchant`, who has the checkout, so that a payment mandate needs it in the same call; or of a `payment` service (credential provider, network, PSP), which never gets it, so that a payment mandate is verified by itself, and a call that needs a mandate needs one for a payment.',
      ),
    requireForSideEffects: z.boolean().default(false).describe('Side-effecting calls require a mandate.'),
    headers: headersSchema,
    trust: trustSchema,
    tools: toolsSchema,
    mode: z
      .enum(['', 'observe', 'partial', 'full'])
      .default('')
      .describe(
        '`observe` reports and never denies; `partial` requires mandates for side effects, and `enforcement.deny_on` decides; `full` requires them for every tool call, and each finding denies. The empty string: as `requireForSideEffects` and `enforcement.deny_on` say.',
      ),
    policyWebhookUrl: httpUrlSchema
      .superRefine((url, context) => {
        const message = secureUrlError(url)
        if (message !== undefined) context.addIssue({ code: 'custom', message })
      })
      .optional()
      .describe('Webhook to which denials for mandates are posted; it decides nothing.'),
  })
  .describe('Mandates of the Agent Payments Protocol. May also be written as `security.ap2`.')

export type Ap2Config = z.output<typeof ap2Schema>
