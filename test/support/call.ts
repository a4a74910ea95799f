// A call as the gateway would make it, for tests of single stages.

import type { IncomingHttpHeaders } from 'node:http'
import {
  Call,
  type CallAgent,
  type CallRequest,
  type CallTrace,
  canonicalize,
  type Face,
  type JsonValue,
} from '@svc/core'

export interface CallOverrides {
  readonly face?: Face
  readonly headers?: IncomingHttpHeaders
  readonly receivedAt?: number
  readonly agent?: Partial<CallAgent>
  readonly trace?: Partial<CallTrace>
  readonly server?: string
  readonly tool?: string
  readonly version?: string
  readonly args?: JsonValue
  /** Over what follows from the rest. */
  readonly request?: Partial<CallRequest>
  /** In place of a request that can be read. */
  readonly read?: () => Promise<CallRequest> | CallRequest
}

/** `echo@1.0.0` on server `files`, without headers or arguments, unless told otherwise. */
export function makeCall(overrides: CallOverrides = {}): Call {
  const { face = 'invoke', server = 'files', tool = 'echo', version = '1.0.0', args = {} } = overrides
  const canonicalArgs = canonicalize(args)
  const request: CallRequest = {
    kind: 'tool',
    method: face === 'mcp' ? 'tools/call' : null,
    server,
    name: tool,
    version,
    reference: `mcp://${server}/${tool}@${version}`,
    args,
    canonicalArgs,
    bytes: Buffer.byteLength(canonicalArgs),
    idempotencyKey: null,
    ...overrides.request,
  }
  return new Call({
    face,
    headers: overrides.headers ?? {},
    trace: {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
      flags: '01',
      state: null,
      causeTraceId: null,
      causeSpanId: null,
      ...overrides.trace,
    },
    agent: {
      nodeId: null,
      agentRef: null,
      parentRef: null,
      variables: null,
      metadata: null,
      ...overrides.agent,
    },
    target: {
      server: request.server,
      serverVersion: version,
      tool: request.name,
      toolVersion: version,
      mcpMethod: request.method,
    },
    receivedAt: overrides.receivedAt ?? Date.UTC(2026, 0, 1),
    read: overrides.read ?? (() => request),
  })
}
