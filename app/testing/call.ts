// A call as the gateway would make it, for tests of a single stage.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Call,
  type CallAgent,
  type CallProtocol,
  type CallRequest,
  type CallTrace,
  frozen,
} from '@svc/core'
import { canonicalize, type JsonValue } from '@svc/core/json'
import { CallControl } from '@svc/core/pipeline'

/** The parts of a call that a test chooses. */
export interface FakeCall {
  readonly protocol?: CallProtocol
  readonly headers?: IncomingHttpHeaders
  readonly agent?: Partial<CallAgent>
  readonly trace?: Partial<CallTrace>
  /** Milliseconds since the epoch. */
  readonly receivedAt?: number
  readonly server?: string
  readonly tool?: string
  readonly version?: string
  readonly args?: JsonValue
  /** Replaces members that follow from the rest: another kind, a size, an idempotency key. */
  readonly request?: Partial<CallRequest>
  /** Replaces the reading of the request, for instance by one that throws a `Refusal`. */
  readonly read?: () => Promise<CallRequest> | CallRequest
}

/** `get_invoice@1.0.0` on server `billing`, without headers or arguments, unless `given` has others. */
export function fakeCall(given: FakeCall = {}): Call {
  return fakeCallControl(given)
}

/** The same call as a pipeline takes it. */
export function fakeCallControl(given: FakeCall = {}): CallControl {
  const {
    protocol = 'invoke',
    server = 'billing',
    tool = 'get_invoice',
    version = '1.0.0',
    args = {},
  } = given
  const canonicalArgs = canonicalize(args)
  const reference = given.request?.reference ?? `mcp://${server}/${tool}@${version}`
  const request = frozen({
    kind: 'tool',
    method: protocol === 'mcp' ? 'tools/call' : null,
    server,
    name: tool,
    version,
    reference,
    readings: [reference],
    args,
    canonicalArgs,
    bytes: Buffer.byteLength(canonicalArgs),
    idempotencyKey: null,
    ...given.request,
  })
  return new CallControl({
    protocol,
    headers: given.headers ?? {},
    trace: {
      traceId: '1'.padStart(32, '0'),
      spanId: '1'.padStart(16, '0'),
      flags: '01',
      state: null,
      causeTraceId: null,
      causeSpanId: null,
      ...given.trace,
    },
    agent: {
      nodeId: null,
      agentRef: null,
      parentRef: null,
      variables: null,
      metadata: null,
      ...given.agent,
    },
    target: {
      server: request.server,
      serverVersion: version,
      tool: request.name,
      toolVersion: version,
      mcpMethod: request.method,
    },
    receivedAt: given.receivedAt ?? Date.UTC(2026, 0, 1),
    read: given.read ?? (() => request),
  })
}
