// Redacts an answer on its way out, whole or streamed, over both protocols; the record's digest is of what is left.
import {
  type AnswerStream,
  type Call,
  type CallRequest,
  type Completed,
  isStream,
  type Outcome,
} from '@svc/core'
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
  const { body } = outcome
  if (call.protocol === 'mcp') {
    // Only as events does an answer stream there.
    return isStream(body)
      ? { ...outcome, body: new McpEvents(body, request, rules) }
      : redactMcpBody(outcome, body, request, rules)
  }
  // Also where they come whole, as in a replay.
  if (isEvents(outcome)) return redactInvokeEvents(outcome, isStream(body) ? body : streamOf(body), rules)
  return isStream(body) ? gatheredInvoke(outcome, body, rules) : redactInvokeBody(outcome, body, rules)
}

function isEvents({ headers }: Completed): boolean {
  return /^text\/event-stream\b/i.test(String(headers['content-type']))
}

function streamOf(bytes: Uint8Array): AnswerStream {
  return {
    async *[Symbol.asyncIterator]() {
      yield { bytes }
    },
  }
}
