// What travels upstream with a call: named headers only, so that nothing of the caller's slips through.
import type { Call, CallRequest } from '@svc/core'

/** Passed on as they came. */
const passed = ['x-node-id', 'x-agent-ref', 'x-agent-state', 'x-agent-parent-ref', 'baggage'] as const

/**
 * Headers of ours on every request upstream: trace, cause, coding, agent and idempotency headers (decisions.md §2).
 * Never `authorization`, cookies or hop-by-hop headers.
 */
export function upstreamHeaders(call: Call, request: CallRequest): Record<string, string> {
  const { trace } = call
  const headers: Record<string, string> = {
    traceparent: traceparentOf(call),
    'x-cause-trace': trace.traceId,
    'x-cause-span': trace.spanId,
    // Answers are judged and hashed as what they say, and the caller was not asked what it can decode.
    'accept-encoding': 'identity',
  }
  // Only of a trace that is continued: beside a new traceparent the old state would be another trace's.
  if (trace.state !== null) headers['tracestate'] = trace.state
  for (const name of passed) {
    const value = call.headers[name]
    if (typeof value === 'string') headers[name] = value
  }
  if (request.idempotencyKey !== null) headers['idempotency-key'] = request.idempotencyKey
  return headers
}

/** W3C Trace Context §3.2: this hop as the parent of the next. */
export function traceparentOf(call: Call): string {
  const { traceId, spanId, flags } = call.trace
  return `00-${traceId}-${spanId}-${flags}`
}
