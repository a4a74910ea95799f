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
import type { CallControl } from '@svc/core/pipeline'
import { noteHttpError } from './call-slots.js'
import type { UpstreamDispatcher } from './dispatcher.js'
import { upstreamHeaders } from './headers.js'
import { isUpstreamError, type UpstreamResponse } from './response.js'
import { limitResponse, responseTimeoutOf } from './response-limits.js'
import { sendCall } from './send.js'

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
  parts: InvokeParts,
): MaybePromise<Outcome> {
  return after(call.commitHolds(), (refused) => refused ?? exchange(call, request, target, parts))
}

async function exchange(
  call: CallControl,
  request: CallRequest,
  target: URL,
  { upstream, maxResponseBytes }: InvokeParts,
): Promise<Outcome> {
  try {
    const headers = upstreamHeaders(call, request)
    headers['content-type'] = 'application/json'
    headers['accept'] = 'application/json, text/event-stream;q=0.5, */*;q=0.1'
    const sending = {
      method: 'POST',
      path: invokePath(target, request),
      headers,
      body: JSON.stringify(request.args),
      signal: call.abortState,
      call,
      responseTimeoutMs: responseTimeoutOf(call),
    } as const
    const response = limitResponse(await sendCall(upstream, target, sending), maxResponseBytes)
    return completedOutcome(call, isPending(response) ? await response : response)
  } catch (error) {
    return outcomeOfError(call, error)
  }
}

/** The path of the tool below its target. The names of a request have been checked. */
function invokePath({ pathname, search }: URL, { name, version }: CallRequest): string {
  const base = pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
  return `${base}/invoke/${encodeURIComponent(name)}@${encodeURIComponent(version)}${search}`
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
