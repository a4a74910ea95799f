// Turns an upstream's answer into the outcome of the call.
import {
  after,
  attempt,
  type Completed,
  type Denied,
  type Failed,
  type MaybePromise,
  type Outcome,
} from '@svc/core'
import { hasDuplicateMembers } from '@svc/core/json'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import type { UpstreamAnswer } from '../upstream/answer.js'
import { discard } from '../upstream/discard.js'
import { limitBody } from '../upstream/response-limit.js'
import { McpAnswerStream, type Resumption } from './answer-stream.js'
import { readWholeBody } from './body.js'
import type { LateResponses } from './late-responses.js'
import type { RequestId } from './message.js'
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
import { StandingStream } from './standing-stream.js'
import { failureOf } from './stream-events.js'
import { headersToClient } from './wire-headers.js'

export interface AnswerLimits {
  /** Of the response to one call, and of each event of a standing stream. */
  readonly maxResponseBytes: number
}

/** The request that an answer belongs to, and how its response is handled. */
export interface ResponseContext {
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** The id of the request that waits for a response; undefined for notifications and responses. */
  readonly id: RequestId | undefined
  readonly isStanding: boolean
  readonly drainWhenAbandoned: boolean
  readonly review: ResponseFilter
  isCancelled(): boolean
  encodeError(outcome: Denied | Failed): string
  lateResponses(): LateResponses
  /** `begun`: the session that the answer begins, if any. */
  resumptionOf(id: RequestId, begun: unknown): Resumption
}

/** Throws or rejects only for internal errors; an answer that breaks the protocol is a failure of the upstream. */
export function outcomeOf(
  answer: UpstreamAnswer,
  context: ResponseContext,
  limits: AnswerLimits,
): MaybePromise<Outcome> {
  return attempt(
    () => read(answer, context, limits),
    (fault) => {
      const outcome = failureOf(fault)
      return discard(answer.body).then(() => outcome)
    },
  )
}

function read(answer: UpstreamAnswer, context: ResponseContext, limits: AnswerLimits): MaybePromise<Outcome> {
  const { status, headers, body } = answer
  if (status >= 300 && status < 400)
    throw new ProtocolViolation('The upstream redirects; redirects are not followed.')
  const coding = headers['content-encoding']
  if (coding !== undefined && coding !== 'identity')
    throw new ProtocolViolation('The upstream sent a content coding that was not requested.')
  if (status >= 400) return refusedByUpstream(answer, context, limits)
  const type = mediaType(headers['content-type'])
  if (context.id === undefined && context.method !== 'GET') {
    // The protocol answers notifications with 202 and no body, so a body has nothing that the client waits for.
    return discard(body).then(() => completed(answer, new Uint8Array(), { digest: null }, false))
  }
  if (type === EVENT_STREAM_TYPE) return streamed(answer, context, limits)
  if (context.id === undefined)
    throw new ProtocolViolation('The upstream answered a GET with something other than events.')
  if (type !== JSON_TYPE) throw new ProtocolViolation('The upstream answered with neither JSON nor events.')
  return answered(answer, context, context.id, limits)
}

function answered(
  answer: UpstreamAnswer,
  context: ResponseContext,
  id: RequestId,
  limits: AnswerLimits,
): MaybePromise<Outcome> {
  return after(readWholeBody(answer.body, limits.maxResponseBytes), (bytes) => {
    const text = readText(bytes)
    const message = readServerMessage(text)
    checkResponse(message, id)
    return after(context.review.response(message), (reviewed) =>
      completed(answer, bodyOf(bytes, text, message, reviewed), verdictOf(reviewed)),
    )
  })
}

/** 4xx and 5xx are passed on, with lists filtered. */
async function refusedByUpstream(
  answer: UpstreamAnswer,
  context: ResponseContext,
  limits: AnswerLimits,
): Promise<Outcome> {
  const type = mediaType(answer.headers['content-type'])
  if (type === EVENT_STREAM_TYPE)
    throw new ProtocolViolation('The upstream sent an error as a stream of events.')
  const bytes = await readWholeBody(answer.body, limits.maxResponseBytes)
  if (type !== JSON_TYPE) return completed(answer, bytes, { digest: null, error: 'UPSTREAM' })
  const text = readLoosely(() => readText(bytes))
  const message = text === undefined ? undefined : readLoosely(() => readServerMessage(text))
  if (text === undefined || message === undefined) {
    return completed(answer, bytes, { digest: null, error: 'UPSTREAM' })
  }
  const reviewed = isResponse(message) ? await context.review.response(message) : message
  const body = bodyOf(bytes, text, message, reviewed)
  return completed(answer, body, { digest: null, error: 'UPSTREAM' })
}

function readLoosely<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (fault) {
    if (fault instanceof ProtocolViolation) return undefined
    throw fault
  }
}

/** The bytes as they came, where the review changed nothing and every parser reads them alike. */
function bodyOf(bytes: Uint8Array, text: string, message: Fields, reviewed: Fields): Uint8Array {
  const isSame = reviewed === message && !hasDuplicateMembers(text, message)
  return isSame ? bytes : Buffer.from(JSON.stringify(reviewed))
}

function streamed(answer: UpstreamAnswer, context: ResponseContext, limits: AnswerLimits): Completed {
  const { body, headers } = answer
  const { id, isStanding, drainWhenAbandoned, review } = context
  const { maxResponseBytes } = limits
  const encodeError = (outcome: Failed): string => context.encodeError(outcome)
  const stream =
    id === undefined || isStanding
      ? new StandingStream({
          body,
          id,
          maxEventBytes: maxResponseBytes,
          review,
          lateResponses: context.lateResponses(),
          encodeError,
        })
      : new McpAnswerStream({
          body: limitBody(body, maxResponseBytes),
          id,
          drainWhenAbandoned,
          maxEventBytes: maxResponseBytes,
          review,
          resumption: context.resumptionOf(id, headers[SESSION_ID_HEADER]),
          isCancelled: () => context.isCancelled(),
          encodeError,
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
  return { kind: 'completed', status: answer.status, headers, body, ...verdict }
}
