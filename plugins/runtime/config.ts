// Schema of the `runtime` section.
import { connectionFields, fieldValue } from '@svc/core/http'
import { headerNameSchema, httpUrlSchema, keyRefSchema, secureUrlError } from '@svc/core/policy'
import { z } from 'zod'

/** The only protocol version that this gateway supports. */
const PROTOCOL_VERSION = '2026-02-01'

const headersSchema = z
  .record(
    headerNameSchema.refine(
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
    endpoint: httpUrlSchema
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
    apiKeyRef: keyRefSchema
      .optional()
      .describe(
        'Reference to the API key: `env:NAME`, `file://PATH` or `command:NAME`. A changed key takes effect without a restart.',
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
  .superRefine(({ endpoint, headers = {}, apiKey, apiKeyRef, allowInsecureHttp }, context) => {
    const mistake = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message })
    if (apiKey !== undefined && apiKeyRef !== undefined) {
      mistake(['apiKeyRef'], 'apiKey and apiKeyRef exclude each other; set one of them')
    }
    const authorization = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization')
    if (authorization !== undefined && (apiKey ?? apiKeyRef) !== undefined) {
      mistake(['headers', authorization], 'the API key is sent in this header; set one of them')
    }
    if (endpoint?.includes('#')) mistake(['endpoint'], 'must not contain a fragment')
    const message = secureUrlError(endpoint, {
      because: 'because a forged response can allow calls',
      insecureKey: 'allowInsecureHttp',
      isInsecureAllowed: allowInsecureHttp,
    })
    if (message !== undefined) mistake(['endpoint'], message)
  })
  .describe('The remote runtime; required if `mode` is `remote`.')

const enforcementSchema = z
  .strictObject({
    mode: z
      .enum(['local', 'remote'])
      .default('local')
      .describe("The judge of findings: the policy's own `enforcement` section, or a remote runtime."),
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
        "What happens to calls while the runtime is unavailable: `local` applies the policy's own rule, `allow` lets them pass, `deny` refuses them with RUNTIME_UNAVAILABLE.",
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
