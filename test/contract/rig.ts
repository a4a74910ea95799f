// A gateway in front of one tool server, as a user of the contract meets them.
import { expect } from 'chai'
import { type GatewayOptions, type GatewaySettings, PolicyError, startGatewayServer } from 'svc-sdk'
import type { SignedEnvelope } from 'svc-sdk/audit'
import { bind, tokens } from 'svc-sdk/core'
import type { DependencyContainer } from 'tsyringe'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { keepingLogger } from '../support/logger.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../support/upstream.js'

export interface Answered {
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
  call(call?: ToolCall): Promise<Answered>
}

export interface ToolCall {
  readonly tool?: string
  readonly args?: Record<string, unknown>
  readonly headers?: Record<string, string>
}

type Settings = GatewaySettings | ((home: string, upstream: string) => GatewaySettings)
type Answer = Parameters<typeof startUpstream>[0]

/** The server is `files`; everything is allowed unless `settings` say otherwise. */
export async function serving(settings: Settings = {}, answer?: Answer): Promise<Serving> {
  const upstream = await startUpstream(answer)
  try {
    const gateway = await startTestGateway((home) => ({
      targets: { files: upstream.url },
      sec0Dir: `${home}/state`,
      ...(typeof settings === 'function' ? settings(home, upstream.url) : settings),
    }))
    return servingOf(gateway, upstream)
  } catch (fault) {
    await upstream[Symbol.asyncDispose]()
    throw fault
  }
}

function servingOf(gateway: TestGateway, upstream: TestUpstream): Serving {
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
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

/** What every gateway needs, with a writer in code so that nothing is opened. */
export const complete = {
  port: 0,
  tenant: 'acme',
  targets: { files: 'http://127.0.0.1:9' },
  audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', append: async () => undefined },
  quotas: { adapter: 'memory' },
  entitlements: 'open',
  authn: { allowUnauthenticated: true },
  configure: (container: DependencyContainer) => {
    bind(container, tokens.Logger, { useValue: keepingLogger() })
  },
} as const

/** The message of the `PolicyError` that starting throws at once; fails where it starts. */
export function refusal(
  changes: Record<string, unknown>,
  options: Record<string, unknown> = complete,
): string {
  let fault: unknown
  try {
    // The types would refuse most of what is tried here.
    const handle = startGatewayServer({ ...options, ...changes } as GatewayOptions)
    handle.ready().catch(() => undefined)
    void handle.close()
  } catch (thrown) {
    fault = thrown
  }
  expect(fault, `starts with ${JSON.stringify(changes)}`).to.be.instanceOf(PolicyError)
  return String(fault)
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

/** Refused with this path and, where it is given, these words. */
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
