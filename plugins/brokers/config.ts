// The `brokers` section (contract.md §2.11), and what it leaves open.
import { isLoopbackHost } from '@svc/core/http'
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

/** Without defaults, so that a key which the type does not read is told, not ignored. */
const keys = {
  key_refs: z
    .array(keyRef)
    .min(1)
    .refine((refs) => new Set(refs).size === refs.length, 'names a key twice')
    .describe(
      'The keys: `env:NAME`, `file://PATH`, or what a CredentialSource from code knows. One for `static`.',
    ),
  rest_sec: z
    .number()
    .min(1)
    .max(86_400)
    .describe(
      'Pool: seconds that a key rests which the upstream refused without saying how long; 60 by default.',
    ),
  max_rest_sec: z
    .number()
    .min(1)
    .max(86_400)
    .describe('Pool: most seconds that a key rests, whatever Retry-After says; 3600 by default.'),
  retry_on: z
    .array(z.union([z.literal(401), z.literal(403), z.literal(429)]))
    .describe('Pool: answers after which a call is sent once more, with the next key; all three by default.'),
  token_endpoint: z
    .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
    .describe('Exchange: where tokens are exchanged (RFC 8693); https, or http on a loopback address.'),
  client_id: z.string().min(1).describe('Exchange: the gateway, as the authorization server knows it.'),
  client_secret_ref: keyRef.describe("Exchange: reference of the gateway's client secret."),
  client_auth: z
    .enum(['client_secret_basic', 'client_secret_post'])
    .describe('Exchange: how the secret is sent; `client_secret_basic` by default.'),
  private_key_ref: keyRef.describe(
    'Exchange: reference of a private key, PEM or JWK, in place of a secret (RFC 7523).',
  ),
  private_key_id: z
    .string()
    .min(1)
    .describe('Exchange: the `kid` of assertions; by default that of the JWK.'),
  private_key_alg: z
    .enum(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'])
    .describe("Exchange: signs the assertions; by default what the key's type suggests."),
  assertion_audience: z
    .string()
    .min(1)
    .describe('Exchange: the `aud` of assertions; by default the token endpoint.'),
  audience: z.string().min(1).describe('Exchange: name of the service the token is for (RFC 8693 §2.1).'),
  resource: z.url().describe('Exchange: URL of the service the token is for (RFC 8707).'),
  scope: z.string().min(1).describe('Exchange: the scope to ask for.'),
  subject_token_type: z
    .string()
    .min(1)
    .describe("Exchange: what the caller's token is; by default an access token (RFC 8693 §3)."),
  requested_token_type: z.string().min(1).describe('Exchange: what to ask for; nothing by default.'),
  timeout_ms: z
    .int()
    .min(1)
    .max(60_000)
    .describe('Exchange: milliseconds after which one exchange is given up; 5000 by default.'),
  expiry_margin_sec: z
    .number()
    .min(0)
    .max(3600)
    .describe(
      'Exchange: seconds before its expiry at which a token is exchanged anew; 30 by default, at most half its life.',
    ),
  cache_size: z
    .int()
    .min(1)
    .max(1_000_000)
    .describe('Exchange: for how many callers tokens are kept; 10000 by default.'),
  allow_insecure_http: z
    .boolean()
    .describe('Exchange: send tokens over plain http to a host that is not loopback. For trials only.'),
}

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
      .describe("Directories that files with keys may lie in; the policy's own and sec0Dir by default."),
    ...z.object(keys).partial().shape,
  })
  .superRefine((broker, context) => {
    for (const { path, message } of faultsOf(broker)) {
      context.addIssue({ code: 'custom', path: [path], message })
    }
  })
  .describe('The credential for one upstream server.')

const ofPool: readonly Key[] = ['rest_sec', 'max_rest_sec', 'retry_on']
const ofExchange = (Object.keys(keys) as Key[]).filter((key) => key !== 'key_refs' && !ofPool.includes(key))

type Broker = { readonly type: string } & Partial<Readonly<Record<Key, unknown>>>

interface Fault {
  readonly path: Key
  readonly message: string
}

function faultsOf(broker: Broker): Fault[] {
  const { type } = broker
  const strangers = [
    ...(type === 'vendor_key_pool' ? [] : strange(broker, ofPool, 'vendor_key_pool')),
    ...(type === 'oidc_on_behalf' ? [] : strange(broker, ofExchange, 'oidc_on_behalf')),
  ]
  return [...strangers, ...(type === 'oidc_on_behalf' ? exchangeFaults(broker) : keyFaults(broker))]
}

function strange(broker: Broker, keys: readonly Key[], owner: string): Fault[] {
  return keys
    .filter((key) => broker[key] !== undefined)
    .map((path) => ({ path, message: `belongs to the type ${owner}; leave it out` }))
}

function keyFaults({ type, key_refs }: Broker): Fault[] {
  const path = 'key_refs'
  if (!Array.isArray(key_refs))
    return [{ path, message: `missing; the type ${type} takes its keys from there` }]
  if (type !== 'static' || key_refs.length === 1) return []
  const message = 'the type static has one key; accepted is one entry, or the type vendor_key_pool'
  return [{ path, message }]
}

function exchangeFaults(broker: Broker): Fault[] {
  const faults: Fault[] = strange(broker, ['key_refs'], 'static or vendor_key_pool')
  for (const path of ['token_endpoint', 'client_id'] as const) {
    if (broker[path] === undefined)
      faults.push({ path, message: 'missing; the type oidc_on_behalf needs it' })
  }
  const { client_secret_ref: secret, private_key_ref: key } = broker
  if ((secret === undefined) === (key === undefined)) {
    const message = `the gateway proves itself by a secret or by a private key; ${secret === undefined ? 'neither' : 'both'} is given`
    faults.push({ path: 'client_secret_ref', message })
  }
  return [...faults, ...endpointFaults(broker)]
}

function endpointFaults({ token_endpoint: endpoint, allow_insecure_http: insecure }: Broker): Fault[] {
  const path = 'token_endpoint'
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint)) return []
  const { username, password, protocol, hostname } = new URL(endpoint)
  if (username !== '' || password !== '') return [{ path, message: 'must not hold a user or a password' }]
  if (protocol === 'https:' || insecure === true || isLoopbackHost(hostname)) return []
  const message =
    "must be https: callers' tokens and the gateway's secret are sent there (http is accepted on a loopback address, or with allow_insecure_http: true)"
  return [{ path, message }]
}

export const brokersSchema = z
  .record(z.string().min(1), brokerSchema)
  .describe('Credentials for upstreams, by the name of the server in `targets`.')

export type BrokersConfig = z.output<typeof brokersSchema>
export type BrokerConfig = z.output<typeof brokerSchema>
export type InjectConfig = z.output<typeof injectSchema>
