// The schema of a policy without the sections of plugins: tenant, targets, server, admin.
import { isUrl } from '@svc/core/json'
import { type EffectivePolicy, keyRefSchema } from '@svc/core/policy'
import { z } from 'zod'
import { noticesSchema } from '../admin/notices/config.js'
import { allowedHostsSchema } from '../http/allowed-hosts.js'
import { allowedOriginsSchema } from '../http/allowed-origins.js'
import { defaultLimits } from '../http/default-limits.js'
import { publicUrlSchema, trustedProxiesSchema } from '../http/public-url.js'
import { tlsSchema } from '../http/tls/certificates.js'
import { stdioTargetSchema } from '../stdio/targets/config.js'
import { addressOf } from '../upstream/target.js'
import { adminSchema } from './admin-config.js'
import { federationSchema } from './federation-config.js'

const MAX_ITEMS = 1000

const valueSchema = z.union([
  z.string(),
  z.number().refine((value) => !Number.isInteger(value) || Number.isSafeInteger(value), {
    error: 'not exact; accepted are whole numbers below 2^53',
  }),
  z.boolean(),
  z.array(z.union([z.string(), z.number()])).max(MAX_ITEMS),
])

const perTenantSchema = z
  .strictObject({
    default: valueSchema.describe('Value for tenants that are not listed.'),
    tenants: z.record(z.string().min(1), valueSchema).describe('Values by tenant.'),
  })
  .superRefine(({ default: common, tenants }, context) => {
    for (const [tenant, value] of Object.entries(tenants)) {
      if (kindOf(value) === kindOf(common)) continue
      const message = `a ${kindOf(value)}, and the default is a ${kindOf(common)}; accepted is one type for all tenants`
      context.addIssue({ code: 'custom', path: ['tenants', tenant], message })
    }
  })

/** Schema of `vars`: values that the conditions of rules read. */
const varsSchema = z
  .record(
    z.string().regex(/^[A-Za-z_]\w{0,63}$/, 'expected a name of letters, digits and "_"'),
    z.union([valueSchema, perTenantSchema]),
  )
  .optional()
  .describe(
    'Values that conditions of `rules` read as `vars.<name>`: texts, numbers, true or false, and lists; or `{ default, tenants }` with a value for each tenant.',
  )

function kindOf(value: z.infer<typeof valueSchema>): string {
  if (!Array.isArray(value)) return typeof value
  return value.every((item) => typeof item === 'string') ? 'list of texts' : 'list'
}

const milliseconds = (min: number, defaultValue: number, what: string) =>
  z.int().min(min).max(86_400_000).default(defaultValue).describe(`${what}, in milliseconds.`)

const optionalMilliseconds = (what: string) =>
  z.int().min(1).max(86_400_000).optional().describe(`${what}, in milliseconds.`)

const bytes = (min: number, defaultValue: number, what: string) =>
  z.int().min(min).max(1_073_741_824).default(defaultValue).describe(`${what}, in bytes.`)

const count = (defaultValue: number, what: string) =>
  z.int().min(1).max(1_000_000).default(defaultValue).describe(`${what}.`)

const urlTargetSchema = z.string().superRefine((target, context) => {
  const message = targetMistake(target)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

const targetSchema = z
  .union([urlTargetSchema, stdioTargetSchema])
  .describe(
    'Base URL of the upstream, http or https; `mcp+http(s)://…` for an MCP server that the invoke protocol reaches too; or a mapping with the command of an MCP server over stdio.',
  )

function targetMistake(target: string): string | undefined {
  const address = addressOf(target)
  if (!isUrl(address)) return 'not a URL; accepted is an http or https URL'
  const { protocol, username, password, search, hash } = new URL(address)
  if (protocol !== 'http:' && protocol !== 'https:') {
    return `a URL of the protocol ${protocol.slice(0, -1)}; accepted is an http or https URL`
  }
  if (username !== '' || password !== '') return 'the URL holds credentials; accepted is a URL without them'
  if (search !== '' || hash !== '') return 'the URL has a query or a fragment; accepted is a base URL'
  return undefined
}

const serverSchema = z
  .strictObject({
    host: z.string().min(1).default('127.0.0.1').describe('Address to listen on.'),
    publicUrl: publicUrlSchema,
    trustedProxies: trustedProxiesSchema,
    allowedHosts: allowedHostsSchema,
    allowedOrigins: allowedOriginsSchema,
    maxBodyBytes: bytes(1, 4_194_304, "Hard cap on a request's body; larger is PAYLOAD_TOO_LARGE"),
    maxResponseBytes: bytes(
      1,
      67_108_864,
      'Hard cap on the response to a call, over every protocol, and on each event of a stream of notifications; larger is PAYLOAD_TOO_LARGE',
    ),
    maxHeaderBytes: bytes(1024, 16_384, "Hard cap on all of a request's headers together"),
    maxHeaders: count(defaultLimits.maxHeaders, "Hard cap on the number of a request's headers"),
    maxConnections: count(
      defaultLimits.maxConnections,
      'Client connections at a time; more are closed at once',
    ),
    maxConnectionsPerAddress: count(
      defaultLimits.maxConnectionsPerAddress,
      'Connections of one IPv4 address or IPv6 /64 network at a time, trusted proxies excepted; more are closed at once',
    ),
    maxRequestsPerConnection: count(
      defaultLimits.maxRequestsPerConnection,
      'Requests on one client connection, which then closes',
    ),
    maxConnectionsPerTenant: count(
      5_000,
      'Connections on which one tenant has made calls at a time, those of trusted proxies excepted; more are RATE_LIMITED and closed',
    ),
    maxCallsPerTenant: count(1_000, 'Calls of one tenant in flight at a time; more are RATE_LIMITED'),
    maxStreamsPerTenant: count(
      5_000,
      'Streams of notifications of one tenant at a time (MCP: GET and `subscriptions/listen`); more are RATE_LIMITED',
    ),
    headersTimeoutMs: milliseconds(1, 10_000, 'Time that a client has to send all headers'),
    requestTimeoutMs: milliseconds(1, 30_000, 'Time that a client has to send the whole request'),
    writeTimeoutMs: milliseconds(
      1,
      defaultLimits.writeTimeoutMs,
      'Time that a client has to read its response, and a second more for each 16 KiB',
    ),
    keepAliveTimeoutMs: milliseconds(0, 5_000, 'Time for which an idle client connection is kept'),
    connectTimeoutMs: milliseconds(1, 5_000, 'Time to connect to an upstream'),
    upstreamTimeoutMs: optionalMilliseconds(
      "Time that an upstream has until its response begins. Default: `security.limits.max_duration_ms`, else an hour in observe mode and 300 s in the others; a minute for the gateway's own requests",
    ),
    upstreamIdleMs: optionalMilliseconds(
      "Silence allowed within an upstream's response, but for events over MCP. Default: as `upstreamTimeoutMs`; 300 s for the time that an event of over 1 MiB has to be complete",
    ),
    drainMs: milliseconds(0, 10_000, 'Time that calls in flight have to end when the gateway closes'),
    sessionKeyRef: keyRefSchema
      .optional()
      .describe(
        'Key of MCP sessions, `env:NAME`, `file://PATH` or `command:NAME`; gateways that serve the same sessions need the same. By default in the Redis of a section, else `mcp-sessions.key` in sec0Dir.',
      ),
    mcp: z
      .strictObject({
        keep_alive_ms: milliseconds(
          1,
          15_000,
          'Silence of a stream of events after which its caller gets a comment',
        ),
        elicit_ms: z
          .int()
          .min(0)
          .max(45_000)
          .default(45_000)
          .describe(
            'The longest time that a call waits for a person whom its client can ask (elicitation), in milliseconds; 0: no client is asked.',
          ),
        abandoned_ms: milliseconds(
          0,
          30_000,
          'Time that a call may take, for its record, after its caller cancelled it or left, up to 2025-11-25',
        ),
        abandoned_bytes: bytes(0, 1_048_576, 'Hard cap on what is read of its response in that time'),
        pass_params: z
          .array(z.string().min(1))
          .default([])
          .describe(
            'Names of params that guarded MCP methods may have beside those of the protocol; others are refused, but for `_meta`. They are judged, hashed and a part of the call like arguments.',
          ),
        revisions: z
          .enum(['all', 'handshake'])
          .default('all')
          .describe(
            'Revisions at `/mcp`, groups and commands: all, or those with a handshake (up to 2025-11-25), by which servers of both kinds can ask clients for input.',
          ),
        denials: z
          .enum(['error', 'result'])
          .default('result')
          .describe(
            'The form of a refused or failed `tools/call`: a result with `isError` and the reason as text, which clients show to their model, or a JSON-RPC error, which some hide.',
          ),
      })
      .prefault({})
      .describe('The MCP protocol.'),
    tls: tlsSchema,
  })
  .prefault({})
  .describe('Where the gateway listens, its time limits and hard caps.')

const pluginUseSchema = z.strictObject({
  use: z
    .string()
    .min(1)
    .describe('The name of a built-in section, a package, or a path relative to the policy file.'),
  version: z.string().min(1).optional().describe("Semver range that the plugin's own version must satisfy."),
})

const secretCommandSchema = z.strictObject({
  command: z
    .string()
    .min(1)
    .describe(
      'The program, found in PATH or by a path relative to the policy; it gets the environment of the gateway.',
    ),
  args: z.array(z.string()).default([]).describe('Its arguments; no shell reads them.'),
  timeout_ms: milliseconds(1, 10_000, 'Time after which it is ended, and the secret is unavailable'),
  cache_ms: milliseconds(
    0,
    300_000,
    'Time for which its secret is used, unless an upstream refuses it, before it runs again, at most once a second',
  ),
})

/** A string that is one segment of a path and of a reference. */
const nameSchema = z.string().min(1)

export const hostSchema = z.strictObject({
  tenant: nameSchema.describe('Tenant of calls without a token.'),
  port: z.int().min(0).max(65_535).describe('TCP port to listen on; 0 picks a free one.'),
  targets: z
    .record(nameSchema, targetSchema)
    .describe('Upstream server name to base URL, or to a command; the name is the one in /mcp/<server>/….'),
  sec0Dir: z.string().min(1).default('.svc').describe('Directory of the files that the gateway writes.'),
  server: serverSchema,
  federation: federationSchema,
  admin: adminSchema.optional(),
  vars: varsSchema,
  notices: noticesSchema,
  shadow: z
    .strictObject({
      policy: z
        .string()
        .min(1)
        .describe('The file of the candidate, relative to the directory of this policy.'),
      max_share: z
        .number()
        .min(0.001)
        .max(1)
        .default(0.05)
        .describe('Part of one core that it may take; beyond that it judges a sample of the traces.'),
    })
    .optional()
    .describe('A candidate policy, which judges calls after their responses and decides nothing.'),
  plugins: z
    .array(pluginUseSchema)
    .default([])
    .describe('Plugins to load, and the versions of built-in ones to insist on.'),
  secrets: z
    .record(nameSchema, secretCommandSchema)
    .default({})
    .describe(
      'Programs that print a secret, such as the command line of a vault, for references `command:NAME`.',
    ),
  pipeline: z
    .array(z.string().min(1))
    .optional()
    .describe('The stages by section name, outermost first; absent: the default order.'),
})

/** The host's part of a policy: listener, targets, limits, admin. */
export type HostConfig = z.output<typeof hostSchema>
/** A valid policy. */
export type Policy = EffectivePolicy<HostConfig>
/** The host part as options may have it. */
export type HostOptions = z.input<typeof hostSchema>
