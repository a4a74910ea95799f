// A call that is judged: it has no trace of a caller, and is never sent.
import type { IncomingHttpHeaders } from 'node:http'
import { type CallAgent, type CallRequest, clientForms, judgedOnly, type Outcome } from '@svc/core'
import { CallControl } from '@svc/core/pipeline'

const trace = {
  traceId: '0'.repeat(31).concat('1'),
  spanId: '0'.repeat(15).concat('1'),
  flags: '00',
  state: null,
  causeTraceId: null,
  causeSpanId: null,
}

export const noAgent: CallAgent = {
  nodeId: null,
  agentRef: null,
  parentRef: null,
  variables: null,
  metadata: null,
}

interface UnsentCall {
  readonly headers?: IncomingHttpHeaders
  readonly agent?: CallAgent
  readonly receivedAt?: number
  /** Whether its client shows forms. Default: over MCP. */
  readonly showsForms?: boolean
}

export function unsentCall(
  request: CallRequest,
  { headers = {}, agent = noAgent, receivedAt = Date.now(), showsForms }: UnsentCall = {},
): CallControl {
  const { server, name: tool, version, method } = request
  const call = new CallControl({
    protocol: method === null ? 'invoke' : 'mcp',
    headers,
    trace,
    agent,
    target: { server, serverVersion: version, tool, toolVersion: version, mcpMethod: method },
    receivedAt,
    read: () => request,
  })
  call.set(judgedOnly, true)
  call.set(clientForms, () => ({ isOffered: showsForms ?? method !== null }))
  return call
}

/** The outcome for the stages in place of a response. */
export const unsent: Outcome = {
  kind: 'completed',
  status: 200,
  headers: {},
  body: new Uint8Array(),
}
