// The `runtime` section (contract.md §2.16), and what it leaves open.
import { connectionFields, fieldValue, isLoopbackHost } from '@svc/core/http'
import { z } from 'zod'

/** The one version of the protocol that this gateway speaks (decisions.md §5). */
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
      .refine((value) => fieldValue.test(value), 'holds characters that no header can carry')
      .describe('Its value.'),
  )
  .describe('Further headers of every request to the runtime.')

const remoteSchema = z
  .strictObject({
    endpoint: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
      .optional()
      .describe('Address that is asked to evaluate a call: https, or http on a loopback address.'),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(2000)
      .describe('The most that a verdict may take, repeated tries included, in milliseconds.'),
    maxRetries: z.int().min(0).max(10).default(1).describe('Repeated tries after a failure.'),
    retryBackoffMs: z
      .int()
      .min(0)
      .max(60_000)
      .default(100)
      .describe(
        'Pause before the first repeat, in milliseconds; it doubles with each, and half of it is chance.',
      ),
    headers: headersSchema.optional(),
    apiKey: z
      .string()
      .refine((key) => fieldValue.test(key) && !/\s/.test(key), 'holds characters that no header can carry')
      .optional()
      .describe('Key of the remote runtime, sent as a bearer token. Keep it out of the file: apiKeyRef.'),
    apiKeyRef: z
      .string()
      .regex(/^(?:env:|file:\/\/)./, 'not a key reference; accepted are env:NAME and file://PATH')
      .optional()
      .describe(
        'Reference of the key in place of `apiKey`: `env:NAME` or `file://PATH`, read again when it changes.',
      ),
    includeArguments: z
      .boolean()
      .default(false)
      .describe("Whether the runtime is told the call's arguments; it is always told their SHA-256."),
    allowInsecureHttp: z
      .boolean()
      .optional()
      .describe('Ask over plain http on a host that is not loopback. For trials only.'),
  })
  .superRefine((remote, context) => {
    for (const { path, message } of faultsOf(remote)) context.addIssue({ code: 'custom', path, message })
  })
  .describe('The remote runtime, where mode is `remote`.')

interface Fault {
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

function faultsOf(remote: Remote): Fault[] {
  const { endpoint, headers = {}, apiKey, apiKeyRef, allowInsecureHttp } = remote
  const faults: Fault[] = []
  if (apiKey !== undefined && apiKeyRef !== undefined)
    faults.push({ path: ['apiKeyRef'], message: 'apiKey and apiKeyRef are both given; give one' })
  const own = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization')
  if (own !== undefined && (apiKey ?? apiKeyRef) !== undefined) {
    const message = 'the key is sent in this header; leave one of them out'
    faults.push({ path: ['headers', own], message })
  }
  const message = endpoint === undefined ? undefined : faultOfEndpoint(endpoint, allowInsecureHttp === true)
  return message === undefined ? faults : [...faults, { path: ['endpoint'], message }]
}

function faultOfEndpoint(endpoint: string, isInsecureAllowed: boolean): string | undefined {
  if (!URL.canParse(endpoint)) return undefined
  const { username, password, protocol, hostname, hash } = new URL(endpoint)
  if (username !== '' || password !== '') return 'must not hold a user or a password'
  if (hash !== '') return 'must not hold a fragment'
  if (protocol === 'https:' || isInsecureAllowed || isLoopbackHost(hostname)) return undefined
  return 'must be https: whoever can change what it answers can let calls through (http is accepted on a loopback address, or with allowInsecureHttp: true)'
}

const enforcementSchema = z
  .strictObject({
    mode: z
      .enum(['local', 'remote'])
      .default('local')
      .describe("Who judges what was found: the policy's own `enforcement`, or a remote runtime."),
    protocolVersion: z
      .literal(PROTOCOL_VERSION, `this gateway speaks the version "${PROTOCOL_VERSION}" only`)
      .default(PROTOCOL_VERSION)
      .describe('Version of the runtime protocol. An answer of another version is none.'),
    failureMode: z
      .enum(['local', 'allow', 'deny'])
      .default('deny')
      .describe(
        "What a call gets while the runtime cannot be asked: the policy's own verdict, a pass, or RUNTIME_UNAVAILABLE.",
      ),
    remote: remoteSchema.optional(),
  })
  .superRefine(({ mode, remote }, context) => {
    if (mode !== 'remote' || remote?.endpoint !== undefined) return
    const message = 'missing; mode remote asks this address'
    context.addIssue({ code: 'custom', path: ['remote', 'endpoint'], message })
  })
  .describe('Who turns findings into a decision.')

export const runtimeSchema = z
  .strictObject({ enforcement: enforcementSchema.prefault({}) })
  .describe('Evaluation of calls by a local or remote runtime.')

export type RuntimeConfig = z.output<typeof runtimeSchema>
export type RemoteConfig = z.output<typeof remoteSchema>
