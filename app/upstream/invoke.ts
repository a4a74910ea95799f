// The upstream half of the invoke protocol: POST <target>/invoke/<tool>@<version>.
import {
  type AnswerChunk,
  after,
  type CallRequest,
  failed,
  isPending,
  isRefusal,
  type MaybePromise,
  type Outcome,
} from '@svc/core'
import { formatToolSegment } from '@svc/core/match'
import type { CallControl } from '@svc/core/pipeline'
import { isUpstreamError, type UpstreamAnswer, type UpstreamRequest } from './answer.js'
import type { UpstreamDispatcher } from './dispatcher.js'
import { upstreamHeaders } from './headers.js'
import { limitAnswer } from './response-limit.js'
import { type CallObservers, callerOf, sendCall } from './send.js'

/** The upstream's headers about the body; the others belong to the hop. */
const bodyHeaders: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'content-language',
  'content-disposition',
  'cache-control',
  'retry-after',
  'etag',
])

export function dispatchInvoke(
  control: CallControl,
  target: URL,
  upstream: UpstreamDispatcher,
  maxResponseBytes: number,
): MaybePromise<Outcome> {
  const { call } = control
  return after(call.request(), (request) => {
    const headers = upstreamHeaders(call, request)
    headers['content-type'] = 'application/json'
    headers['accept'] = 'application/json, text/event-stream;q=0.5, */*;q=0.1'
    const send = async (): Promise<Outcome> => {
      try {
        const path = invokePath(target, request)
        const body = JSON.stringify(request.args)
        const sending: UpstreamRequest & CallObservers = {
          method: 'POST',
          path,
          headers,
          body,
          signal: call.abortState,
          caller: () => callerOf(call),
          onHead: () => control.firstByte(),
        }
        const answer = limitAnswer(await sendCall(control, upstream, target, sending), maxResponseBytes)
        return completed(isPending(answer) ? await answer : answer)
      } catch (fault) {
        return outcomeOfFault(control, fault)
      }
    }
    return after(control.commitHolds(), (refused) => refused ?? send())
  })
}

/** Path of the tool below its target. */
function invokePath(target: URL, { name, version }: CallRequest): string {
  const base = target.pathname.endsWith('/') ? target.pathname.slice(0, -1) : target.pathname
  return `${base}/invoke/${formatToolSegment({ tool: name, version })}${target.search}`
}

/** The outcome of an error while a call is sent. */
export function outcomeOfFault(control: CallControl, fault: unknown): Outcome {
  if (isUpstreamError(fault)) {
    control.markSent(fault.sent)
    return failed('UPSTREAM_UNREACHABLE', fault.message, { cause: fault.cause })
  }
  // A request is measured before it is sent, so this is the response.
  if (isRefusal(fault) && fault.code === 'PAYLOAD_TOO_LARGE') control.markSent('yes')
  if (isRefusal(fault)) return failed(fault.code, fault.message, { cause: fault.cause })
  throw fault
}

function completed(answer: UpstreamAnswer): Outcome {
  const headers: Record<string, string | string[]> = {}
  for (const name in answer.headers) {
    const value = answer.headers[name]
    if (value !== undefined && bodyHeaders.has(name)) headers[name] = value
  }
  const { status } = answer
  const body = answer.body instanceof Uint8Array ? answer.body : chunks(answer.body)
  const outcome = { kind: 'completed', status, headers, body } as const
  return status >= 400 ? { ...outcome, error: 'UPSTREAM' } : outcome
}

async function* chunks(body: AsyncIterable<Uint8Array>): AsyncGenerator<AnswerChunk> {
  for await (const bytes of body) yield { bytes }
}
