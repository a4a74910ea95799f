// The upstream half of the invoke protocol: POST <target>/invoke/<tool>@<version>.
import { type CallRequest, failed, isPending, isRefusal, type Outcome, type ResponseChunk } from '@svc/core'
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

export async function dispatchInvoke(
  call: CallControl,
  request: CallRequest,
  target: Target,
  upstream: UpstreamDispatcher,
  maxResponseBytes: number,
): Promise<Outcome> {
  const committing = call.commitHolds()
  const refused = isPending(committing) ? await committing : committing
  if (refused !== undefined) return refused
  try {
    const headers = upstreamHeaders(call, request)
    headers['content-type'] = 'application/json'
    headers['accept'] = 'application/json, text/event-stream;q=0.5, */*;q=0.1'
    const sending = {
      method: 'POST',
      path: invokePath(target, request),
      headers,
      body: JSON.stringify(request.args),
      signal: call,
      call,
      responseTimeoutMs: responseTimeoutOf(call),
    } as const
    const response = limitResponse(await sendCall(upstream, target.url, sending), maxResponseBytes)
    return completedOutcome(call, isPending(response) ? await response : response)
  } catch (error) {
    return outcomeOfError(call, error)
  }
}

/** The path of the tool below its target. The names of a request have been checked. */
function invokePath({ path, query }: Target, { name, version }: CallRequest): string {
  return `${path}/invoke/${encodeURIComponent(name)}@${encodeURIComponent(version)}${query}`
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
