// Redacts a response of either protocol, whole or streamed. The record's digest is that of the redacted response.
import {
  type Call,
  type CallRequest,
  type Completed,
  isStream,
  type MaybePromise,
  type Outcome,
  type ResponseStream,
} from '@svc/core'
import { redactInvokeBody, redactInvokeEvents, redactInvokeStream } from './invoke.js'
import { RedactedMcpStream, redactMcpBody } from './mcp.js'
import type { OutputRule } from './rule.js'

/** Refusals and failures are unchanged: the gateway itself writes them. */
export function redactOutcome(
  call: Call,
  request: CallRequest,
  outcome: Outcome,
  rules: readonly OutputRule[],
): MaybePromise<Outcome> {
  if (outcome.kind !== 'completed') return outcome
  const { body } = outcome
  if (call.protocol === 'mcp') {
    // Every MCP stream is an event stream.
    return isStream(body)
      ? { ...outcome, body: new RedactedMcpStream(body, request, rules) }
      : redactMcpBody(outcome, body, request, rules)
  }
  // A replayed event stream has a whole body.
  if (isEventStream(outcome))
    return redactInvokeEvents(outcome, isStream(body) ? body : streamOf(body), rules)
  return isStream(body) ? redactInvokeStream(outcome, body, rules) : redactInvokeBody(outcome, body, rules)
}

function isEventStream({ headers }: Completed): boolean {
  return /^text\/event-stream\b/i.test(String(headers['content-type']))
}

function streamOf(bytes: Uint8Array): ResponseStream {
  return {
    async *[Symbol.asyncIterator]() {
      yield { bytes }
    },
  }
}
