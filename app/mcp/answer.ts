// What an upstream's answer means for the call that waits for it.
import type { Completed, Denied, Failed, Outcome } from '@svc/core'
import type { UpstreamAnswer } from '../upstream/answer.js'
import { discard } from '../upstream/discard.js'
import { failureOf, McpAnswerStream } from './answer-stream.js'
import { readWholeBody } from './body.js'
import type { RequestId } from './message.js'
import { mediaType } from './protocol.js'
import type { ResponseFilter } from './response-filter.js'
import {
  checkResponse,
  type Fields,
  isResponse,
  ProtocolViolation,
  readServerMessage,
  readText,
  verdictOf,
} from './rpc-response.js'
import { headersToClient } from './wire-headers.js'

const JSON_TYPE = 'application/json'
const EVENTS = 'text/event-stream'

export interface AnswerLimits {
  readonly maxAnswerBytes: number
  readonly maxEventBytes: number
}

/** What was asked. */
export interface ResponseContext {
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** The request that waits for a response; undefined where a message is only handed over. */
  readonly id: RequestId | undefined
  readonly isStanding: boolean
  readonly drainWhenAbandoned: boolean
  readonly review: ResponseFilter
  encodeError(outcome: Denied | Failed): string
  withhold(): void
  inPlaceOf(response: Fields): string | undefined
}

/** Never rejects but for faults of ours; an answer that breaks the protocol is a failure of the upstream's. */
export async function outcomeOf(
  answer: UpstreamAnswer,
  question: ResponseContext,
  caps: AnswerLimits,
): Promise<Outcome> {
  try {
    return await read(answer, question, caps)
  } catch (fault) {
    const outcome = failureOf(fault)
    await discard(answer.body)
    return outcome
  }
}

async function read(answer: UpstreamAnswer, question: ResponseContext, caps: AnswerLimits): Promise<Outcome> {
  const { status, headers, body } = answer
  if (status >= 300 && status < 400)
    throw new ProtocolViolation('The upstream redirects; targets are not followed elsewhere.')
  const coding = headers['content-encoding']
  if (coding !== undefined && coding !== 'identity')
    throw new ProtocolViolation('The upstream sent a coding nobody asked for.')
  if (status >= 400) return refusedByUpstream(answer, question, caps)
  const type = mediaType(headers['content-type'])
  if (question.id === undefined && question.method !== 'GET') {
    // Handed over: 202 and no body by the protocol, so what else may come carries nothing the client waits for.
    await discard(body)
    return completed(answer, new Uint8Array(), { digest: null }, false)
  }
  if (type === EVENTS) return streamed(answer, question, caps)
  if (question.id === undefined)
    throw new ProtocolViolation('The upstream answered a GET with something other than events.')
  if (type !== JSON_TYPE) throw new ProtocolViolation('The upstream answered with neither JSON nor events.')
  return answered(answer, question, question.id, caps)
}

async function answered(
  answer: UpstreamAnswer,
  question: ResponseContext,
  id: RequestId,
  caps: AnswerLimits,
): Promise<Outcome> {
  const bytes = await readWholeBody(answer.body, caps.maxAnswerBytes)
  const message = readServerMessage(readText(bytes))
  checkResponse(message, id)
  const reviewed = await question.review.response(message)
  return completed(answer, shownAs(bytes, message, reviewed), verdictOf(reviewed))
}

/** 4xx and 5xx go on as they are, only never with a list that was not cut down. */
async function refusedByUpstream(
  answer: UpstreamAnswer,
  question: ResponseContext,
  caps: AnswerLimits,
): Promise<Outcome> {
  const type = mediaType(answer.headers['content-type'])
  if (type === EVENTS) throw new ProtocolViolation('The upstream sent an error as a stream of events.')
  const bytes = await readWholeBody(answer.body, caps.maxAnswerBytes)
  if (type !== JSON_TYPE) return completed(answer, bytes, { digest: null, error: 'UPSTREAM' })
  const message = looseMessage(bytes)
  const reviewed =
    message === undefined || !isResponse(message) ? message : await question.review.response(message)
  const body = message === undefined || reviewed === undefined ? bytes : shownAs(bytes, message, reviewed)
  return completed(answer, body, { digest: null, error: 'UPSTREAM' })
}

function looseMessage(bytes: Uint8Array): Fields | undefined {
  try {
    return readServerMessage(readText(bytes))
  } catch (fault) {
    if (fault instanceof ProtocolViolation) return undefined
    throw fault
  }
}

function shownAs(bytes: Uint8Array, message: Fields, reviewed: Fields): Uint8Array {
  return reviewed === message ? bytes : Buffer.from(JSON.stringify(reviewed))
}

function streamed(answer: UpstreamAnswer, question: ResponseContext, caps: AnswerLimits): Completed {
  const { body } = answer
  const { id, isStanding, drainWhenAbandoned, review } = question
  const stream = new McpAnswerStream({
    body,
    id,
    isStanding,
    drainWhenAbandoned,
    review,
    maxEventBytes: caps.maxEventBytes,
    encodeError: (outcome) => question.encodeError(outcome),
    withhold: () => question.withhold(),
    inPlaceOf: (response) => question.inPlaceOf(response),
  })
  return completed(answer, stream, { digest: null })
}

function completed(
  answer: UpstreamAnswer,
  body: Completed['body'],
  verdict: Pick<Completed, 'error'> & { digest: string | null },
  keepType = true,
): Completed {
  const headers = headersToClient(answer.headers)
  if (!keepType) delete headers['content-type']
  return { kind: 'completed', sent: 'yes', status: answer.status, headers, body, ...verdict }
}
