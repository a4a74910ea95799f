// Rewrites a response of either protocol, whole or streamed. The record's digest is that of the new response.
import type { Call } from '../call/call.js'
import type { MaybePromise } from '../call/maybe-promise.js'
import { type Completed, isStream, type Outcome, type ResponseStream } from '../call/outcome.js'
import type { CallRequest } from '../call/request.js'
import { RewrittenMcpStream, rewriteMcpBody } from './mcp-response.js'
import { rewriteBody, rewriteBuffered, rewriteEvents } from './plain-response.js'
import type { ResponseRewriter } from './rewriter.js'

/** Refusals and failures are unchanged: the gateway itself writes them. */
export function rewriteOutcome(
  call: Call,
  request: CallRequest,
  outcome: Outcome,
  rewriter: ResponseRewriter,
): MaybePromise<Outcome> {
  if (outcome.kind !== 'completed') return outcome
  const { body } = outcome
  if (call.protocol === 'mcp') {
    // Every MCP stream is an event stream.
    return isStream(body)
      ? { ...outcome, body: new RewrittenMcpStream(call, body, request, rewriter) }
      : rewriteMcpBody(call, outcome, body, request, rewriter)
  }
  // A replayed event stream has a whole body.
  if (isEventStream(outcome)) return rewriteEvents(outcome, isStream(body) ? body : streamOf(body), rewriter)
  return isStream(body)
    ? rewriteBuffered(call, outcome, body, rewriter)
    : rewriteBody(call, outcome, body, rewriter)
}

export function isEventStream({ headers }: Pick<Completed, 'headers'>): boolean {
  return /^text\/event-stream\b/i.test(String(headers['content-type']))
}

function streamOf(bytes: Uint8Array): ResponseStream {
  return {
    async *[Symbol.asyncIterator]() {
      yield { bytes }
    },
  }
}
