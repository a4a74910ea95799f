// Schema of the `runtime` section.
import { connectionFields, fieldValue, isLoopbackHost } from '@svc/core/http'
import { z } from 'zod'

/** The only protocol version that this gateway supports. */
const PROTOCOL_VERSION = '2026-02-01'

const headersSchema = z
  .record(
    z
      .string()
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')
      .refine(
        (name) => !connectionFields.has(name.toLowerCase()),
        'this header is set by the gateway or the connection',
      ),
    z
      .string()
      .refine((value) => fieldValue.test(value), 'contains characters that are not allowed in a header')
      .describe('Value of the header.'),
  )
  .describe('Additional headers of every request to the runtime.')

const remoteSchema = z
  .strictObject({
    endpoint: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
      .optional()
      .describe('URL to which evaluation requests are sent: https, or http on a loopback address.'),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(2000)
      .describe('Time limit of one evaluation, retries included, in milliseconds.'),
    maxRetries: z.int().min(0).max(10).default(1).describe('Retries after a failed request.'),
    retryBackoffMs: z
      .int()
      .min(0)
      .max(60_000)
      .default(100)
      .describe(
        'Delay before the first retry, in milliseconds. It doubles with each retry; half of it is random.',
      ),
    headers: headersSchema.optional(),
    apiKey: z
      .string()
      .refine(
        (key) => fieldValue.test(key) && !/\s/.test(key),
        'contains characters that are not allowed in a header',
      )
      .optional()
      .describe(
        'API key of the remote runtime, sent as a bearer token. Prefer `apiKeyRef`, which keeps the key out of the policy.',
      ),
    apiKeyRef: z
      .string()
      .regex(/^(?:env:|file:\/\/)./, 'not a key reference; accepted are env:NAME and file://PATH')
      .optional()
      .describe(
        'Reference to the API key: `env:NAME` or `file://PATH`. A changed key takes effect without a restart.',
      ),
    includeArguments: z
      .boolean()
      .default(false)
      .describe("Whether requests contain the call's arguments. Their SHA-256 is always included."),
    allowInsecureHttp: z
      .boolean()
      .optional()
      .describe('Whether the endpoint may use plain http on a host that is not loopback. For tests only.'),
  })
  .superRefine((remote, context) => {
    for (const { path, message } of issuesOf(remote)) context.addIssue({ code: 'custom', path, message })
  })
  .describe('The remote runtime; required where `mode` is `remote`.')

interface RemoteIssue {
  readonly path: string[]
  readonly message: string
}

interface Remote {
  readonly endpoint?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly apiKey?: string | undefined
  readonly apiKeyRef?: string | undefined
  readonly allowInsecureHttp?: boolean | undefined
}

function issuesOf(remote: Remote): RemoteIssue[] {
  const { endpoint, headers = {}, apiKey, apiKeyRef, allowInsecureHttp } = remote
  const issues: RemoteIssue[] = []
  if (apiKey !== undefined && apiKeyRef !== undefined)
    issues.push({ path: ['apiKeyRef'], message: 'apiKey and apiKeyRef exclude each other; set one of them' })
  const authorization = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization')
  if (authorization !== undefined && (apiKey ?? apiKeyRef) !== undefined) {
    const message = 'the API key is sent in this header; set one of them'
    issues.push({ path: ['headers', authorization], message })
  }
  const message = endpoint === undefined ? undefined : endpointIssue(endpoint, allowInsecureHttp === true)
  return message === undefined ? issues : [...issues, { path: ['endpoint'], message }]
}

function endpointIssue(endpoint: string, isInsecureAllowed: boolean): string | undefined {
  if (!URL.canParse(endpoint)) return undefined
  const { username, password, protocol, hostname, hash } = new URL(endpoint)
  if (username !== '' || password !== '') return 'must not contain a user name or password'
  if (hash !== '') return 'must not contain a fragment'
  if (protocol === 'https:' || isInsecureAllowed || isLoopbackHost(hostname)) return undefined
  return 'must be https, because a forged response can allow calls (http is accepted on a loopback address, or with allowInsecureHttp: true)'
}

const enforcementSchema = z
  .strictObject({
    mode: z
      .enum(['local', 'remote'])
      .default('local')
      .describe("What decides on findings: the policy's own `enforcement` section, or a remote runtime."),
    protocolVersion: z
      .string()
      .min(1)
      .default(PROTOCOL_VERSION)
      .describe(
        'Version that is sent to the runtime. With another version in the response, only decisions against a call count.',
      ),
    failureMode: z
      .enum(['local', 'allow', 'deny'])
      .default('deny')
      .describe(
        "What happens to calls while the runtime is unavailable: `local` applies the policy's own rule, `allow` lets them pass, `deny` answers RUNTIME_UNAVAILABLE.",
      ),
    remote: remoteSchema.optional(),
  })
  .superRefine(({ mode, remote }, context) => {
    if (mode !== 'remote' || remote?.endpoint !== undefined) return
    const message = 'missing; mode remote requires it'
    context.addIssue({ code: 'custom', path: ['remote', 'endpoint'], message })
  })
  .describe('Where the decision on findings is made.')

export const runtimeSchema = z
  .strictObject({ enforcement: enforcementSchema.prefault({}) })
  .describe('Evaluation of calls by a local or remote runtime.')

export type RuntimeConfig = z.output<typeof runtimeSchema>
export type RemoteConfig = z.output<typeof remoteSchema>
