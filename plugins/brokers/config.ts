// The `brokers` section (contract.md §2.11), and what it leaves open.
import { z } from 'zod'
import { reservedHeaders } from './header.js'

const keyRef = z
  .string()
  .regex(
    /^[a-z][a-z0-9+.-]*:./,
    'not a key reference; accepted are env:NAME, file://PATH or one of a CredentialSource',
  )

const injectSchema = z
  .strictObject({
    header: z
      .string()
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')
      .refine(
        (name) => !reservedHeaders.has(name.toLowerCase()),
        'this header is set by the gateway or the connection',
      )
      .describe('Header the credential is put into. Callers cannot send a header of this name upstream.'),
    format: z
      .enum(['raw', 'bearer', 'template'])
      .describe('How it is written there: `raw`, as it is; `bearer`, after `Bearer `; `template`, into one.'),
    template: z
      .string()
      .regex(/^[\x20-\x7e]*\{\{key\}\}[\x20-\x7e]*$/, 'must hold {{key}}, and printable ASCII characters')
      .optional()
      .describe('For the format `template`: the value, with `{{key}}` where the credential belongs.'),
  })
  .refine(({ format, template }) => (format === 'template') === (template !== undefined), {
    path: ['template'],
    message: 'belongs to the format template, and to no other',
  })
  .describe('How the upstream gets the credential.')

const brokerSchema = z
  .strictObject({
    type: z
      .enum(['vendor_key_pool', 'static'])
      .describe(
        "Where the credential comes from: one fixed key, or a pool of the vendor's keys that are used in turn.",
      ),
    key_refs: z
      .array(keyRef)
      .min(1)
      .refine((refs) => new Set(refs).size === refs.length, 'names a key twice')
      .optional()
      .describe(
        'The keys: `env:NAME`, `file://PATH`, or what a CredentialSource from code knows. One for `static`.',
      ),
    key_dirs: z
      .array(z.string().min(1))
      .min(1)
      .optional()
      .describe("Directories that files with keys may lie in; the policy's own and sec0Dir by default."),
    inject: injectSchema,
    rest_sec: z
      .number()
      .min(1)
      .max(86_400)
      .default(60)
      .describe('Pool: seconds that a key rests which the upstream refused without saying how long.'),
    max_rest_sec: z
      .number()
      .min(1)
      .max(86_400)
      .default(3600)
      .describe("Pool: most seconds that a key rests, whatever the upstream's Retry-After says."),
    retry_on: z
      .array(z.union([z.literal(401), z.literal(403), z.literal(429)]))
      .default([401, 403, 429])
      .describe('Pool: the answers after which the call is sent once more, with the next key.'),
  })
  .superRefine(checkKeys)
  .describe('The credential for one upstream server.')

function checkKeys(
  broker: { type: string; key_refs?: string[] | undefined },
  context: z.RefinementCtx,
): void {
  const path = ['key_refs']
  const { type, key_refs } = broker
  if (key_refs === undefined) {
    context.addIssue({ code: 'custom', path, message: `missing; the type ${type} takes its keys from there` })
  } else if (type === 'static' && key_refs.length > 1) {
    const message = 'the type static has one key; accepted is one entry, or the type vendor_key_pool'
    context.addIssue({ code: 'custom', path, message })
  }
}

export const brokersSchema = z
  .record(z.string().min(1), brokerSchema)
  .describe('Credentials for upstreams, by the name of the server in `targets`.')

export type BrokersConfig = z.output<typeof brokersSchema>
export type BrokerConfig = z.output<typeof brokerSchema>
export type InjectConfig = z.output<typeof injectSchema>
