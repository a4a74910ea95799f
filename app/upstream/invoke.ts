// The upstream half of the invoke protocol: POST <target>/invoke/<tool>@<version>.
import {
  after,
  type CallRequest,
  failed,
  isPending,
  isRefusal,
  type MaybePromise,
  type Outcome,
  type ResponseChunk,
} from '@svc/core'
import { formatToolSegment } from '@svc/core/match'
import type { CallControl } from '@svc/core/pipeline'
import type { UpstreamDispatcher } from './dispatcher.js'
import { upstreamHeaders } from './headers.js'
import { isUpstreamError, type UpstreamRequest, type UpstreamResponse } from './response.js'
import { limitResponse } from './response-limit.js'
import { responseTimeoutOf } from './response-timeout.js'
import { type CallObservers, callerOf, sendCall } from './send.js'
import { noteHttpError } from './upstream-facts.js'

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

interface InvokeParts {
  readonly upstream: UpstreamDispatcher
  readonly maxResponseBytes: number
}

export function dispatchInvoke(
  call: CallControl,
  request: CallRequest,
  target: URL,
  { upstream, maxResponseBytes }: InvokeParts,
): MaybePromise<Outcome> {
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
        afterSettle: (handler: () => void) => call.afterSettle(handler),
        responseTimeoutMs: responseTimeoutOf(call),
        onHead: () => call.firstByte(),
      }
      const response = limitResponse(await sendCall(call, upstream, target, sending), maxResponseBytes)
      const whole = isPending(response) ? await response : response
      noteHttpError(call, whole.status)
      return completedOutcome(whole)
    } catch (error) {
      return outcomeOfError(call, error)
    }
  }
  return after(call.commitHolds(), (refused) => refused ?? send())
}

/** The path of the tool below its target. */
function invokePath(target: URL, { name, version }: CallRequest): string {
  const base = target.pathname.endsWith('/') ? target.pathname.slice(0, -1) : target.pathname
  return `${base}/invoke/${formatToolSegment({ tool: name, version })}${target.search}`
}

/** The outcome of an error while a call is sent. */
export function outcomeOfError(call: CallControl, error: unknown): Outcome {
  if (isUpstreamError(error)) {
    call.markSent(error.sent)
    return failed('UPSTREAM_UNREACHABLE', error.message, { cause: error.cause })
  }
  // A request is measured before it is sent, so this is the response.
  if (isRefusal(error) && error.code === 'PAYLOAD_TOO_LARGE') call.markSent('yes')
  if (isRefusal(error)) return failed(error.code, error.message, { cause: error.cause })
  throw error
}

function completedOutcome(response: UpstreamResponse): Outcome {
  const headers: Record<string, string | string[]> = {}
  for (const name in response.headers) {
    const value = response.headers[name]
    if (value !== undefined && bodyHeaders.has(name)) headers[name] = value
  }
  const { status } = response
  const body = response.body instanceof Uint8Array ? response.body : chunks(response.body)
  const outcome = { kind: 'completed', status, headers, body } as const
  return status >= 400 ? { ...outcome, error: 'UPSTREAM' } : outcome
}

async function* chunks(body: AsyncIterable<Uint8Array>): AsyncGenerator<ResponseChunk> {
  for await (const bytes of body) yield { bytes }
}
