// Sends requests upstream with the credential of a broker: calls of all protocols, and requests of the gateway itself.
// Also what a call carries for that: its dispatcher and server in slots, and the headers that it sends.
import {
  type Call,
  type CallRequest,
  type Credential,
  credential,
  identity,
  mandates,
  principalKeyOf,
  type ResponseHead,
  slot,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { type CallControl, countRetry, type Dispatch } from '@svc/core/pipeline'
import type { BudgetUser } from '../budget/budget.js'
import { discard } from './discard.js'
import {
  type Discardable,
  isUpstreamError,
  UpstreamError,
  type UpstreamRequest,
  type UpstreamResponse,
} from './response.js'
import type { Target } from './target.js'

/** The endpoint that creates a call sets it: it knows the upstream, so the pipeline need not decide it again. */
export const dispatcher = slot<{ readonly dispatch: Dispatch }>('svc-sdk/dispatcher')

/** The dispatch of a pipeline's core. */
export const dispatchFromSlot: Dispatch = (call) => call.need(dispatcher).dispatch(call)

/** Set by the endpoint that created the call; `isMcp`: the call is sent by MCP. */
export const upstreamTarget = slot<Pick<Target, 'url' | 'isMcp'>>('svc-sdk/upstreamTarget', {
  isShared: true,
})

interface ReportedError {
  /** `error.type`. */
  readonly type: string
  /** Whether the type is a code of JSON-RPC. */
  readonly isRpcCode: boolean
}

/** The error in the server's response; absent if it has none, or there is no response. */
export const reportedError = slot<ReportedError>('svc-sdk/reportedError', { isShared: true })

/** Reads the error of a JSON-RPC response, as the semantic conventions for MCP name it. */
export function noteRpcError(call: Call, { error, result }: Readonly<Record<string, unknown>>): void {
  if (isJsonObject(error)) call.set(reportedError, { type: String(error['code']), isRpcCode: true })
  else if (isJsonObject(result) && result['isError'] === true)
    call.set(reportedError, { type: 'tool_error', isRpcCode: false })
}

/** Reads the error of an HTTP response. */
export function noteHttpError(call: Call, status: number): void {
  if (status >= 400) call.set(reportedError, { type: String(status), isRpcCode: false })
}

/** Headers that are passed on unchanged. */
const forwarded = ['x-node-id', 'x-agent-ref', 'x-agent-state', 'x-agent-parent-ref', 'baggage'] as const

/**
 * The gateway's headers on every request upstream: trace, cause, coding, agent and idempotency headers. They never have
 * `authorization`, cookies or hop-by-hop headers.
 */
export function upstreamHeaders(call: Call, request: CallRequest): Record<string, string> {
  const { trace } = call
  const headers: Record<string, string> = {
    traceparent: traceparentOf(call),
    'x-cause-trace': trace.traceId,
    'x-cause-span': trace.spanId,
    // Responses are judged and hashed by their content, and the caller may not support another coding.
    'accept-encoding': 'identity',
  }
  // The state belongs to its traceparent, so a new trace has none.
  if (trace.state !== null) headers['tracestate'] = trace.state
  for (const name of forwarded) {
    const value = call.headers[name]
    if (typeof value === 'string') headers[name] = value
  }
  if (request.idempotencyKey !== null) headers['idempotency-key'] = request.idempotencyKey
  const report = call.get(mandates)
  // The gateway's own headers win over those of a mandate.
  return report === undefined ? headers : { ...report.headers, ...headers }
}

/** W3C Trace Context §3.2: this hop as the parent of the next. */
export function traceparentOf(call: Call): string {
  const { traceId, spanId, flags } = call.trace
  return `00-${traceId}-${spanId}-${flags}`
}

type RequestWithoutPath = Omit<UpstreamRequest, 'path'>

/** A request that sends a call. */
type CallSending<Request> = Request & { readonly call: CallControl }

/** A response of bytes, or of messages. */
type AnyResponse = UpstreamResponse | (ResponseHead & Discardable)

export interface Sender<Request extends RequestWithoutPath, Response extends AnyResponse> {
  send(target: URL, request: Request, onSent: () => void): Promise<Response>
}

/** Marks what was sent, and counts a repetition. Rejects like the dispatcher. */
export function sendCall<Request extends RequestWithoutPath, Response extends AnyResponse>(
  upstream: Sender<Request, Response>,
  target: URL,
  request: CallSending<Request>,
): Promise<Response> {
  const { call } = request
  call.markSent('no')
  const onSent = (): void => call.markSent('unknown')
  const onResponse = (response: Response): Response => {
    call.firstByte()
    call.markSent('yes')
    return response
  }
  const first = call.get(credential)
  if (first === undefined) return upstream.send(target, request, onSent).then(onResponse)
  const send = (one: Request) => upstream.send(target, one, onSent).then(onResponse)
  return sendAgainIfRefused<Request, Response>(first, request, send, () => {
    call[countRetry]()
  })
}

/** The key of the principal that makes the call; all callers without a token share one. */
export function callerKey(call: Call): string {
  const caller = call.get(identity)
  return caller === undefined ? '' : principalKeyOf(caller)
}

/** The principal that makes the call, as a member of its tenant. */
function callerOf(call: Call): BudgetUser {
  return { owner: call.get(identity)?.tenant ?? '', member: callerKey(call) }
}

/** The principal that the request is for; undefined if it is for none. */
export function budgetUserOf({
  call,
  onBehalfOf,
}: Pick<UpstreamRequest, 'call' | 'onBehalfOf'>): BudgetUser | undefined {
  const known = call ?? onBehalfOf
  return known && callerOf(known)
}

/**
 * Sends `request` with the credential, which replaces any header of its name. If the response refuses the credential
 * and the broker has another, the request is sent once more and the first response is discarded; `onRepeat` runs
 * before.
 */
export function sendWith<Request extends RequestWithoutPath, Response extends AnyResponse>(
  credential: Credential | undefined,
  request: Request,
  send: (request: Request) => Promise<Response>,
  onRepeat: () => void,
): Promise<Response> {
  return credential === undefined ? send(request) : sendAgainIfRefused(credential, request, send, onRepeat)
}

async function sendAgainIfRefused<Request extends RequestWithoutPath, Response extends AnyResponse>(
  first: Credential,
  request: Request,
  send: (request: Request) => Promise<Response>,
  onRepeat: () => void,
): Promise<Response> {
  const response = await send(withCredential(request, first))
  const second = await first.onResponse?.(response)
  if (second === undefined || request.signal.aborted) return response
  await ('discard' in response ? response.discard() : discard(response.body))
  onRepeat()
  try {
    const last = await send(withCredential(request, second))
    await second.onResponse?.(last)
    return last
  } catch (error) {
    throw isUpstreamError(error) && error.sent === 'no' ? failedRepetition(error) : error
  }
}

function withCredential<Request extends RequestWithoutPath>(
  request: Request,
  { header, value }: Credential,
): Request {
  return { ...request, headers: { ...request.headers, [header]: value } }
}

/** The error of a repetition that was not sent, although the first request was. */
function failedRepetition(error: UpstreamError): UpstreamError {
  return new UpstreamError(error.message, 'yes', { cause: error.cause })
}
