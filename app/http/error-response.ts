// Makes the response to a request outside any call from the error that was thrown.
import { denied, isRefusal, type Logger } from '@svc/core'
import { type BufferedResponse, noCall, refusalResponse } from './response.js'

interface ErrorResponseOptions {
  readonly traceId: string
  readonly logger: Logger
  /** The realm of the challenge in a 401. */
  readonly realm: string
}

/** An internal error goes to the log and not to the caller, as does the cause of a failed store. */
export function errorResponse(
  error: unknown,
  { traceId, logger, realm }: ErrorResponseOptions,
): BufferedResponse {
  if (!isRefusal(error)) {
    logger.error({ err: error, trace_id: traceId }, 'a request could not be handled')
    return refusalResponse(denied('INTERNAL', 'The request could not be handled.'), noCall(traceId))
  }
  const { code, message, cause, retryAfterSec } = error
  if (code === 'STORE_UNAVAILABLE') logger.error({ err: cause, trace_id: traceId }, message)
  const isChallenge = code === 'UNAUTHENTICATED' || code === 'UNAUTHORIZED_TENANT'
  const headers = {
    ...(isChallenge ? { 'www-authenticate': `Bearer realm="${realm}"` } : {}),
    ...(retryAfterSec === undefined ? {} : { 'retry-after': String(retryAfterSec) }),
  }
  return refusalResponse(denied(code, message, { headers }), noCall(traceId))
}
