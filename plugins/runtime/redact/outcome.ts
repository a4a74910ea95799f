// Redacts an answer on its way out, whole or streamed, on both faces; the record's digest is of what is left.
import { type Call, type CallRequest, isStream, type Outcome } from '@svc/core'
import { gatheredInvoke, redactInvokeBody, redactInvokeEvents } from './invoke-answer.js'
import { McpEvents, redactMcpBody } from './mcp-answer.js'
import type { OutputRule } from './rule.js'

/** Refusals and failures are the gateway's own words, and pass. */
export async function redactOutcome(
  call: Call,
  request: CallRequest,
  outcome: Outcome,
  rules: readonly OutputRule[],
): Promise<Outcome> {
  if (outcome.kind !== 'completed') return outcome
  const { body, headers } = outcome
  if (!isStream(body)) {
    return call.face === 'mcp'
      ? redactMcpBody(outcome, body, request, rules)
      : redactInvokeBody(outcome, body, rules)
  }
  // Only as events does an answer stream on the MCP face.
  if (call.face === 'mcp') return { ...outcome, body: new McpEvents(body, request, rules) }
  const isEvents = /^text\/event-stream\b/i.test(String(headers['content-type']))
  return isEvents ? redactInvokeEvents(outcome, body, rules) : gatheredInvoke(outcome, body, rules)
}
