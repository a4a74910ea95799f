// Parts of a call that explains a policy: it has no caller's trace, and is never sent.
import type { Outcome } from '@svc/core'

export const unsentTrace = {
  traceId: '0'.repeat(31).concat('1'),
  spanId: '0'.repeat(15).concat('1'),
  flags: '00',
  state: null,
  causeTraceId: null,
  causeSpanId: null,
}

export const noAgent = { nodeId: null, agentRef: null, parentRef: null, variables: null, metadata: null }

/** What the stages get in place of an answer. */
export const unsent: Outcome = {
  kind: 'completed',
  status: 200,
  headers: {},
  body: new Uint8Array(),
}
