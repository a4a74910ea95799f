// A gateway whose calls are evaluated, the runtime that it asks, and the tool server behind it.
import type { ServerResponse } from 'node:http'
import { bind, type Clock, type Meter, tokens } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import type { GatewayOptions } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'

const VERSION = '2026-02-01'

export interface Decision {
  readonly action: string
  readonly [member: string]: unknown
}

/** Answers with a decision, as a runtime that works does. */
export function decide(response: ServerResponse, decision: Decision, protocolVersion = VERSION): void {
  respond(response, 200, { protocolVersion, decision })
}

export function respond(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

export type RuntimeAnswer = (response: ServerResponse, call: UpstreamCall, nth: number) => void

export interface RigOptions {
  /** What the runtime answers; the number of the request counts from 1. */
  readonly runtime?: RuntimeAnswer
  /** The address of another runtime. */
  readonly endpoint?: string
  readonly remote?: object
  readonly failureMode?: 'local' | 'allow' | 'deny'
  readonly clock?: Clock
  /** What the tool server answers. */
  readonly tool?: (call: UpstreamCall, response: ServerResponse) => void
  readonly options?: GatewayOptions
}

export interface Rig extends AsyncDisposable {
  readonly gateway: TestGateway
  /** What the runtime was asked. */
  readonly asked: UpstreamCall[]
  /** What reached the tool server. */
  readonly served: UpstreamCall[]
  readonly meter: KeepingMeter
  readonly endpoint: string
  /** POSTs `echo@1.0.0` on server `files`. */
  call(args?: unknown, headers?: Record<string, string>): Promise<Response>
  lastRecord(): SignedEnvelope
}

export class KeepingMeter implements Meter {
  readonly values = new Map<string, number>()

  count(name: string, by = 1): void {
    this.values.set(name, (this.values.get(name) ?? 0) + by)
  }

  gauge(name: string, value: number): void {
    this.values.set(name, value)
  }
}

/** The runtime allows and the tool server echoes, unless told otherwise. */
export async function startRig(given: RigOptions = {}): Promise<Rig> {
  const { runtime = (response) => decide(response, { action: 'allow' }), remote = {}, failureMode } = given
  const judge: TestUpstream = await startUpstream((call, response) =>
    runtime(response, call, judge.calls.length),
  )
  const upstream = await startUpstream(given.tool)
  const meter = new KeepingMeter()
  const endpoint = given.endpoint ?? `${judge.url}/evaluate`
  const { configure, ...rest } = given.options ?? {}
  const stop = async (): Promise<void> => {
    await judge[Symbol.asyncDispose]()
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
      if (given.clock !== undefined) bind(container, tokens.Clock, { useValue: given.clock })
      configure?.(container)
    },
  }).catch(async (fault: unknown) => {
    await stop()
    throw fault
  })
  return {
    gateway,
    asked: judge.calls,
    served: upstream.calls,
    meter,
    endpoint,
    call: (args, headers) => gateway.invoke('/mcp/files/echo@1.0.0', args, headers),
    lastRecord() {
      const record = gateway.records().at(-1)
      if (record === undefined) throw new Error('nothing is on record')
      return record
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await stop()
    },
  }
}

/** Entitlements under which every call is a finding. */
export const nothingAllowed: GatewayOptions = {
  entitlements: {
    default_plan: 'p',
    plans: { p: {} },
    tenants: { acme: { plan: 'p', allowlist: ['none'] } },
  },
}
