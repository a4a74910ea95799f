// Answers a request outside any call with the error that was thrown.
import { denied, isRefusal, type Logger } from '@svc/core'
import { noCall, refusalAnswer, type WholeAnswer } from './answer.js'

interface ErrorAnswerOptions {
  readonly traceId: string
  readonly logger: Logger
  /** Of the challenge in a 401. */
  readonly realm: string
}

/** An internal error goes to the log and not to the caller, as does the cause of a failed store. */
export function errorAnswer(fault: unknown, { traceId, logger, realm }: ErrorAnswerOptions): WholeAnswer {
  if (!isRefusal(fault)) {
    logger.error({ err: fault, trace_id: traceId }, 'a request could not be answered')
    return refusalAnswer(denied('INTERNAL', 'The request could not be answered.'), noCall(traceId))
  }
  const { code, message, cause } = fault
  if (code === 'STORE_UNAVAILABLE') logger.error({ err: cause, trace_id: traceId }, message)
  const isChallenge = code === 'UNAUTHENTICATED' || code === 'UNAUTHORIZED_TENANT'
  const headers = isChallenge ? { headers: { 'www-authenticate': `Bearer realm="${realm}"` } } : {}
  return refusalAnswer(denied(code, message, headers), noCall(traceId))
}
