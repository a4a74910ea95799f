// The upstream half of the invoke protocol: POST <target>/invoke/<tool>@<version>.
import {
  type CallRequest,
  failed,
  isPending,
  isRefusal,
  type MaybePromise,
  type Outcome,
  type ResponseChunk,
} from '@svc/core'
import { stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import type { UpstreamDispatcher } from './dispatcher.js'
import { isUpstreamError, type UpstreamResponse } from './response.js'
import { limitResponse, responseTimeoutOf } from './response-limits.js'
import { noteHttpError, sendCall, upstreamHeaders } from './send.js'
import type { Target } from './target.js'

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

interface InvokeDestination {
  readonly target: Target
  /** `<tool>@<version>`, as a segment of the path. */
  readonly segment: string
  readonly upstream: UpstreamDispatcher
  readonly maxResponseBytes: number
}

export function dispatchInvoke(
  call: CallControl,
  request: CallRequest,
  destination: InvokeDestination,
): MaybePromise<Outcome> {
  const refused = call.commitHolds()
  if (isPending(refused)) return refused.then((known) => known ?? sendInvoke(call, request, destination))
  return refused ?? sendInvoke(call, request, destination)
}

function sendInvoke(
  call: CallControl,
  request: CallRequest,
  { target, segment, upstream, maxResponseBytes }: InvokeDestination,
): MaybePromise<Outcome> {
  const failedBy = (error: unknown): Outcome => outcomeOfError(call, error)
  try {
    const headers = upstreamHeaders(call, request)
    headers['content-type'] = 'application/json'
    headers['accept'] = 'application/json, text/event-stream;q=0.5, */*;q=0.1'
    const sending = {
      method: 'POST',
      path: `${target.path}/invoke/${segment}${target.query}`,
      headers,
      body: stringifyJson(request.args),
      signal: call,
      call,
      responseTimeoutMs: responseTimeoutOf(call),
    } as const
    return sendCall(upstream, target.url, sending).then((received) => {
      try {
        const response = limitResponse(received, maxResponseBytes)
        return isPending(response)
          ? response.then((limited) => completedOutcome(call, limited), failedBy)
          : completedOutcome(call, response)
      } catch (error) {
        return failedBy(error)
      }
    }, failedBy)
  } catch (error) {
    return failedBy(error)
  }
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

function completedOutcome(call: CallControl, response: UpstreamResponse): Outcome {
  const headers: Record<string, string | string[]> = {}
  for (const name in response.headers) {
    const value = response.headers[name]
    if (value !== undefined && bodyHeaders.has(name)) headers[name] = value
  }
  const { status } = response
  const body = response.body instanceof Uint8Array ? response.body : chunks(response.body)
  if (status < 400) return { kind: 'completed', status, headers, body }
  noteHttpError(call, status)
  return { kind: 'completed', status, headers, body, error: 'UPSTREAM' }
}

async function* chunks(body: AsyncIterable<Uint8Array>): AsyncGenerator<ResponseChunk> {
  for await (const bytes of body) yield { bytes }
}
