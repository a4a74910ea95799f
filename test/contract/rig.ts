// A gateway in front of one tool server, configured with the contract's own keys and shapes: its writer and its quota
// adapter are objects of the program, its entitlements those of a tenant with a plan.
import { expect } from 'chai'
import {
  type GatewayOptions,
  type GatewaySettings,
  PolicyError,
  type QuotaAdapter,
  startGatewayServer,
} from 'svc-sdk'
import { type SignedEnvelope, SvcAppender } from 'svc-sdk/audit'
import { bind, tokens } from 'svc-sdk/core'
import { LocalDevSigner } from 'svc-sdk/signer'
import type { DependencyContainer } from 'tsyringe'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { keepingLogger } from '../support/logger.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../support/upstream.js'

export interface CallResult {
  readonly status: number
  readonly headers: Headers
  /** Parsed JSON. */
  readonly body: Record<string, unknown>
  /** The call's record in the audit log. */
  readonly record: SignedEnvelope
}

export interface Serving extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly upstream: TestUpstream
  /** Calls the tool server's `read@1.0.0` unless told otherwise. */
  call(call?: ToolCall): Promise<CallResult>
}

export interface ToolCall {
  readonly tool?: string
  readonly args?: Record<string, unknown>
  readonly headers?: Record<string, string>
}

type Settings = GatewaySettings | ((home: string, upstream: string) => GatewaySettings)
type Script = Parameters<typeof startUpstream>[0]

/** Counts without limits of its own, as a user's adapter would. */
function countingAdapter(): QuotaAdapter {
  const counts = new Map<string, number>()
  return {
    async incrDaily(tenant, tool, _limit, now = Date.now()) {
      const key = JSON.stringify([tenant, tool])
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      return { count, resetAt: now + 86_400_000 }
    },
    takeToken: async (_tenant, _tool, _ratePerSec, burst = 1, now = Date.now()) => ({
      tokens: burst,
      resetAt: now,
    }),
  }
}

const everything = {
  default_plan: 'free',
  plans: { free: {} },
  tenants: { acme: { plan: 'free', allowlist: ['*'] } },
}

/** The server is `files`; the tenant `acme` may use everything unless `settings` say otherwise. */
export async function serving(settings: Settings = {}, response?: Script): Promise<Serving> {
  const upstream = await startUpstream(response)
  let appender: SvcAppender | undefined
  const end = async () => {
    await appender?.close()
    await upstream[Symbol.asyncDispose]()
  }
  try {
    const gateway = await startTestGateway((home) => {
      const over = typeof settings === 'function' ? settings(home, upstream.url) : settings
      if (over.audit === undefined) appender = appenderIn(home)
      return {
        targets: { files: upstream.url },
        sec0Dir: `${home}/state`,
        audit: { append: async (env) => appender?.append(env), gatewayName: 'gw', gatewayVersion: '1.0.0' },
        quotas: { adapter: countingAdapter() },
        entitlements: everything,
        ...over,
      }
    })
    return servingOf(gateway, upstream, end)
  } catch (error) {
    await end()
    throw error
  }
}

function appenderIn(home: string): SvcAppender {
  const signer = LocalDevSigner.fromKeyRef(`file://${home}/key`)
  return new SvcAppender({ config: { dir: `${home}/audit`, retentionDays: 30 }, signer })
}

function servingOf(gateway: TestGateway, upstream: TestUpstream, end: () => Promise<void>): Serving {
  return {
    gateway,
    upstream,
    async call({ tool = 'read@1.0.0', args = {}, headers = {} } = {}) {
      const response = await gateway.invoke(`/mcp/files/${tool}`, args, headers)
      const traceId = response.headers.get('x-trace-id')
      const record = gateway.records().find(({ trace_id }) => trace_id === traceId)
      if (record === undefined) throw new Error(`the log has no record of the call ${traceId}`)
      const body = (await response.json()) as Record<string, unknown>
      return { status: response.status, headers: response.headers, body, record }
    },
    async [Symbol.asyncDispose]() {
      await end()
      await gateway[Symbol.asyncDispose]()
    },
  }
}

/** What every gateway needs, with a writer in code so that nothing is opened. */
export const complete = {
  port: 0,
  tenant: 'acme',
  targets: { files: 'http://127.0.0.1:9' },
  audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', append: async () => undefined },
  quotas: { adapter: countingAdapter() },
  entitlements: everything,
  authn: { allowUnauthenticated: true },
  configure: (container: DependencyContainer) => {
    bind(container, tokens.Logger, { useValue: keepingLogger() })
  },
} as const

/** The message of the `PolicyError` that starting throws at once; fails if it starts. */
export function refusal(
  changes: Record<string, unknown>,
  options: Record<string, unknown> = complete,
): string {
  let error: unknown
  try {
    // The types would refuse most of what is tried here.
    const handle = startGatewayServer({ ...options, ...changes } as GatewayOptions)
    handle.ready().catch(() => undefined)
    void handle.close()
  } catch (thrown) {
    error = thrown
  }
  expect(error, `starts with ${JSON.stringify(changes)}`).to.be.instanceOf(PolicyError)
  return String(error)
}

/** Starts with these changes, and stops again. */
export async function starts(changes: Record<string, unknown>): Promise<void> {
  const handle = startGatewayServer({ ...complete, ...changes } as GatewayOptions)
  try {
    await handle.ready()
  } finally {
    await handle.close()
  }
}

/** Refused with this path and, if it is given, these words. */
export function refused(changes: Record<string, unknown>, path: string, words: string | RegExp = ''): void {
  const line = refusal(changes)
    .split('\n')
    .find((text) => text.includes(`${path}: `))
  expect(line, `no mistake at ${path}`).to.be.a('string')
  if (typeof words === 'string') expect(line).to.include(words)
  else expect(line).to.match(words)
}

/** The denial reason of a refused call, which never reached the tool server. */
export async function denialOf(serving: Serving, call?: ToolCall): Promise<unknown> {
  const before = serving.upstream.calls.length
  const { body, status, record } = await serving.call(call)
  expect(status, JSON.stringify(body)).to.be.within(400, 599)
  expect(serving.upstream.calls).to.have.length(before)
  expect(record.policy.decision).to.equal('deny')
  return body['denial_reason']
}

/** What the tool server got last. */
export function lastCall({ upstream }: Serving): UpstreamCall {
  const call = upstream.calls.at(-1)
  if (call === undefined) throw new Error('the tool server was not called')
  return call
}
