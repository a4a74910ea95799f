// The headers of a call upstream: only named ones, so that no other header of the caller is passed on.
import { type Call, type CallRequest, mandates } from '@svc/core'

/** Headers that are passed on unchanged. */
const forwarded = ['x-node-id', 'x-agent-ref', 'x-agent-state', 'x-agent-parent-ref', 'baggage'] as const

/**
 * The gateway's headers on every request upstream: trace, cause, coding, agent and idempotency headers. They never have
 * `authorization`, cookies or hop-by-hop headers.
 */
export function upstreamHeaders(call: Call, request: CallRequest): Record<string, string> {
  const { trace } = call
  const headers: Record<string, string> = {
    traceparent: traceparentOf(call),
    'x-cause-trace': trace.traceId,
    'x-cause-span': trace.spanId,
    // Responses are judged and hashed by their content, and the caller may not support another coding.
    'accept-encoding': 'identity',
  }
  // The state belongs to its traceparent, so a new trace has none.
  if (trace.state !== null) headers['tracestate'] = trace.state
  for (const name of forwarded) {
    const value = call.headers[name]
    if (typeof value === 'string') headers[name] = value
  }
  if (request.idempotencyKey !== null) headers['idempotency-key'] = request.idempotencyKey
  const report = call.get(mandates)
  // The gateway's own headers win over those of a mandate.
  return report === undefined ? headers : { ...report.headers, ...headers }
}

/** W3C Trace Context §3.2: this hop as the parent of the next. */
export function traceparentOf(call: Call): string {
  const { traceId, spanId, flags } = call.trace
  return `00-${traceId}-${spanId}-${flags}`
}
