// Sends upstream with the credential of a broker: the one way out for both protocols and for what the gateway
// itself asks.
import { type Call, type Credential, credential } from '@svc/core'
import { isUpstreamError, type UpstreamAnswer, UpstreamError, type UpstreamRequest } from './answer.js'
import { discard } from './discard.js'
import type { UpstreamDispatcher } from './dispatcher.js'

/** Keeps `call.sent` true to what happened, and counts a repetition. Rejects like the dispatcher. */
export function sendCall(
  call: Call,
  upstream: UpstreamDispatcher,
  target: URL,
  request: UpstreamRequest,
): Promise<UpstreamAnswer> {
  const send = async (sending: UpstreamRequest): Promise<UpstreamAnswer> => {
    const answer = await upstream.send(target, sending, () => {
      call.sent = 'unknown'
    })
    call.sent = 'yes'
    return answer
  }
  return sendWith(call.get(credential), request, send, () => {
    call.retries++
  })
}

/**
 * Sends `request` with the credential in place of whatever else wanted to stand under its header's name. Where
 * the answer refuses the credential and the broker has another, it is sent once more and the first answer is
 * dropped; `onRepeat` runs before that.
 */
export async function sendWith(
  first: Credential | undefined,
  request: UpstreamRequest,
  send: (request: UpstreamRequest) => Promise<UpstreamAnswer>,
  onRepeat: () => void,
): Promise<UpstreamAnswer> {
  if (first === undefined) return send(request)
  const answer = await send(carrying(request, first))
  const second = await first.answered?.(answer)
  if (second === undefined || request.signal.aborted) return answer
  await discard(answer.body)
  onRepeat()
  try {
    const last = await send(carrying(request, second))
    await second.answered?.(last)
    return last
  } catch (fault) {
    throw isUpstreamError(fault) && fault.sent === 'no' ? askedBefore(fault) : fault
  }
}

function carrying(request: UpstreamRequest, { header, value }: Credential): UpstreamRequest {
  return { ...request, headers: { ...request.headers, [header]: value } }
}

/** The repetition did not leave, but the upstream was asked the first time. */
function askedBefore(fault: UpstreamError): UpstreamError {
  return new UpstreamError(fault.message, 'yes', { cause: fault.cause })
}
