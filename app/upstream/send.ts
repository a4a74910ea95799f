// Sends requests upstream with the credential of a broker: calls of all protocols, and requests of the gateway itself.
import {
  type Call,
  type Credential,
  credential,
  identity,
  principalKeyOf,
  type ResponseHead,
} from '@svc/core'
import { type CallControl, countRetry } from '@svc/core/pipeline'
import type { BudgetUser } from '../budget/budget.js'
import { discard } from './discard.js'
import {
  type Discardable,
  isUpstreamError,
  UpstreamError,
  type UpstreamRequest,
  type UpstreamResponse,
} from './response.js'

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
