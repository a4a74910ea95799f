// A gateway with a remote runtime and a tool server, for tests.
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { bind, type Clock, tokens } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { RecordingMeter } from '../../support/stage-rig.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'

const VERSION = '2026-02-01'

export interface Decision {
  readonly action: string
  readonly [member: string]: unknown
}

/** Sends a valid response with this decision. */
export function decide(response: ServerResponse, decision: Decision, protocolVersion = VERSION): void {
  respond(response, 200, { protocolVersion, decision })
}

export function respond(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

export type RuntimeHandler = (response: ServerResponse, call: UpstreamCall, count: number) => void

export interface SetupOptions {
  /** Default: allows every call. `count` is the number of the request, from 1. */
  readonly runtime?: RuntimeHandler
  /** In place of the test's own runtime. */
  readonly endpoint?: string
  readonly remote?: object
  readonly failureMode?: 'local' | 'allow' | 'deny'
  readonly clock?: Clock
  /** Default: echoes. */
  readonly tool?: (call: UpstreamCall, response: ServerResponse) => void
  readonly gateway?: GatewaySettings
}

export interface Setup extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly runtimeRequests: UpstreamCall[]
  readonly toolRequests: UpstreamCall[]
  readonly meter: RecordingMeter
  readonly endpoint: string
  /** POSTs `echo@1.0.0` on server `files`. */
  call(args?: unknown, headers?: Record<string, string>): Promise<Response>
  lastRecord(): SignedEnvelope
}

export async function startSetup(options: SetupOptions = {}): Promise<Setup> {
  const { runtime = (response) => decide(response, { action: 'allow' }), remote = {}, failureMode } = options
  const runtimeServer: TestUpstream = await startUpstream((call, response) =>
    runtime(response, call, runtimeServer.calls.length),
  )
  const upstream = await startUpstream(options.tool)
  const meter = new RecordingMeter()
  const endpoint = options.endpoint ?? `${runtimeServer.url}/evaluate`
  const { configure, ...rest } = options.gateway ?? {}
  const stop = async (): Promise<void> => {
    await runtimeServer[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  }
  const gateway = await startTestGateway({
    targets: { files: upstream.url },
    runtime: {
      enforcement: {
        mode: 'remote',
        remote: { endpoint, retryBackoffMs: 1, ...remote },
        ...(failureMode === undefined ? {} : { failureMode }),
      },
    },
    ...rest,
    configure(container) {
      bind(container, tokens.Meter, { useValue: meter })
      if (options.clock !== undefined) bind(container, tokens.Clock, { useValue: options.clock })
      configure?.(container)
    },
  }).catch(async (error: unknown) => {
    await stop()
    throw error
  })
  return {
    gateway,
    runtimeRequests: runtimeServer.calls,
    toolRequests: upstream.calls,
    meter,
    endpoint,
    call: (args, headers) => gateway.invoke('/mcp/files/echo@1.0.0', args, headers),
    lastRecord() {
      const record = gateway.records().at(-1)
      if (record === undefined) throw new Error('the log is empty')
      return record
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await stop()
    },
  }
}

/** A URL with a port on which nothing listens. */
export async function unusedUrl(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}/evaluate`
}

/** Every call has the finding `tool_not_in_allowlist`. */
export const nothingAllowed: GatewaySettings = {
  entitlements: {
    default_plan: 'p',
    plans: { p: {} },
    tenants: { acme: { plan: 'p', allowlist: ['none'] } },
  },
}
