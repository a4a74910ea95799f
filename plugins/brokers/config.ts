// The `brokers` section of the policy.
import { connectionFields } from '@svc/core/http'
import { headerNameSchema, httpUrlSchema, secureUrlError } from '@svc/core/policy'
import { z } from 'zod'

/** Headers that the connection, the body or the gateway sets. */
const reservedHeaders: ReadonlySet<string> = new Set([
  ...connectionFields,
  'baggage',
  'idempotency-key',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id',
  'proxy-authenticate',
  'proxy-authorization',
  'traceparent',
  'tracestate',
  'x-agent-parent-ref',
  'x-agent-ref',
  'x-agent-state',
  'x-cause-span',
  'x-cause-trace',
  'x-node-id',
])

const keyRef = z
  .string()
  .regex(
    /^[a-z][a-z0-9+.-]*:./,
    'not a key reference; accepted are env:NAME, file://PATH, command:NAME or a reference that the CredentialSource reads',
  )

const injectSchema = z
  .strictObject({
    header: headerNameSchema
      .refine(
        (name) => !reservedHeaders.has(name.toLowerCase()),
        'this header is set by the gateway or the connection',
      )
      .describe('Header the credential is put into. Callers cannot send a header of this name upstream.'),
    format: z
      .enum(['raw', 'bearer', 'template'])
      .describe(
        'Format of the value: `raw`: the credential; `bearer`: `Bearer ` and the credential; `template`: see `template`.',
      ),
    template: z
      .string()
      .regex(
        /^[\x20-\x7e]*\{\{key\}\}[\x20-\x7e]*$/,
        'must contain {{key}} and otherwise printable ASCII characters',
      )
      .optional()
      .describe('For the format `template`: the value, with `{{key}}` in place of the credential.'),
  })
  .superRefine(({ format, template }, context) => {
    if ((format === 'template') === (template !== undefined)) return
    const message =
      template === undefined
        ? 'missing; the format template requires it'
        : 'is accepted only with the format template'
    context.addIssue({ code: 'custom', path: ['template'], message })
  })
  .describe('How the upstream gets the credential.')

/** Without defaults, so that a key which the type does not use is reported instead of ignored. */
const keys = {
  key_refs: z
    .array(keyRef)
    .min(1)
    .refine((refs) => new Set(refs).size === refs.length, 'names a key twice')
    .describe(
      'The keys: `env:NAME`, `file://PATH`, `command:NAME`, or a reference that the bound CredentialSource reads. One for `static`.',
    ),
  cooldown_sec: z
    .number()
    .min(1)
    .max(86_400)
    .describe(
      'Pool: seconds for which a refused key is not used, if the response has no Retry-After; default 60.',
    ),
  max_cooldown_sec: z
    .number()
    .min(1)
    .max(86_400)
    .describe('Pool: maximum of that time, Retry-After included; default 3600.'),
  retry_on: z
    .array(z.union([z.literal(401), z.literal(403), z.literal(429)]))
    .describe('Pool: statuses after which a call is repeated once with the next key; default all three.'),
  token_endpoint: httpUrlSchema.describe(
    'Exchange: URL of the token endpoint (RFC 8693); https, or http on a loopback address.',
  ),
  client_id: z.string().min(1).describe('Exchange: client id of the gateway at the authorization server.'),
  client_secret_ref: keyRef.describe("Exchange: reference of the gateway's client secret."),
  client_auth: z
    .enum(['client_secret_basic', 'client_secret_post'])
    .describe('Exchange: how the secret is sent; default `client_secret_basic`.'),
  private_key_ref: keyRef.describe(
    'Exchange: reference of a private key, PEM or JWK, in place of a secret (RFC 7523).',
  ),
  private_key_id: z.string().min(1).describe('Exchange: the `kid` of assertions; default: that of the JWK.'),
  private_key_alg: z
    .enum(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'])
    .describe('Exchange: algorithm of the assertions; default: by the type of the key.'),
  assertion_audience: z
    .string()
    .min(1)
    .describe('Exchange: the `aud` of assertions; default: the token endpoint.'),
  audience: z.string().min(1).describe('Exchange: name of the service the token is for (RFC 8693 §2.1).'),
  resource: z.url().describe('Exchange: URL of the service the token is for (RFC 8707).'),
  scope: z.string().min(1).describe('Exchange: the scope to request.'),
  subject_token_type: z
    .string()
    .min(1)
    .describe("Exchange: type of the caller's token; default: an access token (RFC 8693 §3)."),
  requested_token_type: z.string().min(1).describe('Exchange: type of token to request; default: not sent.'),
  timeout_ms: z
    .int()
    .min(1)
    .max(60_000)
    .describe('Exchange: timeout of one exchange in milliseconds; default 5000.'),
  expiry_margin_sec: z
    .number()
    .min(0)
    .max(3600)
    .describe(
      'Exchange: seconds before its expiry at which a token is replaced; default 30, at most half its lifetime.',
    ),
  cache_size: z
    .int()
    .min(1)
    .max(1_000_000)
    .describe('Exchange: number of callers whose tokens are cached; default 10000.'),
  allow_insecure_http: z
    .boolean()
    .describe('Exchange: allow plain http to a host that is not loopback. For tests only.'),
}

const keysSchema = z.object(keys).partial()

type Key = keyof typeof keys

const brokerSchema = z
  .strictObject({
    type: z
      .enum(['vendor_key_pool', 'oidc_on_behalf', 'static'])
      .describe(
        "Where the credential comes from: a pool of the vendor's keys, an exchange of the caller's token, or one fixed key.",
      ),
    inject: injectSchema,
    key_dirs: z
      .array(z.string().min(1))
      .min(1)
      .optional()
      .describe("Directories that may hold key files; default: the policy's directory and sec0Dir."),
    ...keysSchema.shape,
  })
  .superRefine((broker, context) => {
    for (const { path, message } of errorsOf(broker)) {
      context.addIssue({ code: 'custom', path: [path], message })
    }
  })
  .describe('The credential for one upstream server.')

const poolKeys: readonly Key[] = ['cooldown_sec', 'max_cooldown_sec', 'retry_on']
const exchangeKeys = (Object.keys(keys) as Key[]).filter(
  (key) => key !== 'key_refs' && !poolKeys.includes(key),
)

type BrokerSection = { readonly type: string } & z.output<typeof keysSchema>

interface ConfigIssue {
  readonly path: Key
  readonly message: string
}

function errorsOf(broker: BrokerSection): ConfigIssue[] {
  const { type } = broker
  const foreignKeys = [
    ...(type === 'vendor_key_pool' ? [] : foreign(broker, poolKeys, 'vendor_key_pool')),
    ...(type === 'oidc_on_behalf' ? [] : foreign(broker, exchangeKeys, 'oidc_on_behalf')),
  ]
  return [...foreignKeys, ...(type === 'oidc_on_behalf' ? exchangeErrors(broker) : keyErrors(broker))]
}

function foreign(broker: BrokerSection, keys: readonly Key[], owner: string): ConfigIssue[] {
  return keys
    .filter((key) => broker[key] !== undefined)
    .map((path) => ({ path, message: `is for the type ${owner} only; remove it` }))
}

function keyErrors({ type, key_refs }: BrokerSection): ConfigIssue[] {
  const path = 'key_refs'
  if (!Array.isArray(key_refs)) return [{ path, message: `missing; the type ${type} needs it` }]
  if (type !== 'static' || key_refs.length === 1) return []
  const message = 'the type static accepts one key; use the type vendor_key_pool for several'
  return [{ path, message }]
}

function exchangeErrors(broker: BrokerSection): ConfigIssue[] {
  const errors: ConfigIssue[] = foreign(broker, ['key_refs'], 'static or vendor_key_pool')
  for (const path of ['token_endpoint', 'client_id'] as const) {
    if (broker[path] === undefined)
      errors.push({ path, message: 'missing; the type oidc_on_behalf needs it' })
  }
  const { client_secret_ref: secret, private_key_ref: key } = broker
  if ((secret === undefined) === (key === undefined)) {
    const message = `the gateway authenticates by a secret or by a private key; ${secret === undefined ? 'neither' : 'both'} is given`
    errors.push({ path: 'client_secret_ref', message })
  }
  const message = secureUrlError(broker.token_endpoint, {
    because: "because callers' tokens and the gateway's secret are sent there",
    insecureKey: 'allow_insecure_http',
    isInsecureAllowed: broker.allow_insecure_http,
  })
  return message === undefined ? errors : [...errors, { path: 'token_endpoint', message }]
}

export const brokersSchema = z
  .record(z.string().min(1), brokerSchema)
  .describe('Credentials for upstreams, by the name of the server in `targets`.')

export type BrokerConfig = z.output<typeof brokerSchema>
export type InjectConfig = z.output<typeof injectSchema>
