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
/** Optional members of a request. The literal that makes it has them, as V8 gives each extended copy a new class. */
export interface CallObservers {
  readonly caller: () => BudgetUser
  readonly afterSettle: (handler: () => void) => void
  readonly responseTimeoutMs: number
  readonly onHead: () => void
}

/** A response of bytes, or of messages. */
type AnyResponse = UpstreamResponse | (ResponseHead & Discardable)

export interface Sender<Request extends RequestWithoutPath, Response extends AnyResponse> {
  send(target: URL, request: Request, onSent: () => void): Promise<Response>
}

/** Marks what was sent, and counts a repetition. Rejects like the dispatcher. */
export function sendCall<Request extends RequestWithoutPath, Response extends AnyResponse>(
  call: CallControl,
  upstream: Sender<Request, Response>,
  target: URL,
  request: Request & CallObservers,
): Promise<Response> {
  call.markSent('no')
  const onSent = (): void => call.markSent('unknown')
  const onResponse = (response: Response): Response => {
    call.firstByte()
    call.markSent('yes')
    return response
  }
  const send = (one: Request) => upstream.send(target, one, onSent).then(onResponse)
  return sendWith<Request, Response>(call.get(credential), request, send, () => {
    call[countRetry]()
  })
}

/** The key of the principal that makes the call; all callers without a token share one. */
export function callerKey(call: Call): string {
  const caller = call.get(identity)
  return caller === undefined ? '' : principalKeyOf(caller)
}

/** The principal that makes the call, as a member of its tenant. */
export function callerOf(call: Call): BudgetUser {
  return { owner: call.get(identity)?.tenant ?? '', member: callerKey(call) }
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
