// A call as the gateway would make it, for tests of a single stage.
import type { IncomingHttpHeaders } from 'node:http'
import { Call, type CallAgent, type CallRequest, canonicalize, type Face, type JsonValue } from '@svc/core'

export interface FakeCall {
  readonly face?: Face
  readonly headers?: IncomingHttpHeaders
  readonly agent?: Partial<CallAgent>
  /** Milliseconds since the epoch. */
  readonly receivedAt?: number
  readonly server?: string
  readonly tool?: string
  readonly version?: string
  readonly args?: JsonValue
  readonly idempotencyKey?: string
  /** In place of a request that can be read, for instance one that throws a `Refusal`. */
  readonly read?: () => Promise<CallRequest> | CallRequest
}

/** `get_invoice@1.0.0` on server `billing`, without headers or arguments, unless told otherwise. */
export function fakeCall(given: FakeCall = {}): Call {
  const { face = 'invoke', server = 'billing', tool = 'get_invoice', version = '1.0.0', args = {} } = given
  const canonicalArgs = canonicalize(args)
  const method = face === 'mcp' ? 'tools/call' : null
  return new Call({
    face,
    headers: given.headers ?? {},
    trace: {
      traceId: '1'.padStart(32, '0'),
      spanId: '1'.padStart(16, '0'),
      flags: '01',
      state: null,
      causeTraceId: null,
      causeSpanId: null,
    },
    agent: {
      nodeId: null,
      agentRef: null,
      parentRef: null,
      variables: null,
      metadata: null,
      ...given.agent,
    },
    target: { server, serverVersion: version, tool, toolVersion: version, mcpMethod: method },
    receivedAt: given.receivedAt ?? Date.UTC(2026, 0, 1),
    read:
      given.read ??
      (() => ({
        kind: 'tool',
        method,
        server,
        name: tool,
        version,
        reference: `mcp://${server}/${tool}@${version}`,
        args,
        canonicalArgs,
        bytes: Buffer.byteLength(canonicalArgs),
        idempotencyKey: given.idempotencyKey ?? null,
      })),
  })
}
