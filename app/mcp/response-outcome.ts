// Turns an MCP server's response into the outcome of the call.
import {
  after,
  attempt,
  type Completed,
  type Denied,
  type Failed,
  type MaybePromise,
  type Outcome,
} from '@svc/core'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'
import type { RequestId } from './message.js'
import { NotificationStream } from './notification-stream.js'
import type { ResponseFilter } from './response-filter.js'
import { McpResponseStream, type Resumption } from './response-stream.js'
import type { ResumedResponses } from './resumed-responses.js'
import { checkResponse, failureOf, isResponse, ProtocolViolation, recordedResult } from './rpc-response.js'
import type { EventsResponse, McpResponse, WholeResponse } from './servers.js'
import { showMessage } from './shown-messages.js'
import { headersToClient } from './wire-headers.js'

export interface ResponseLimits {
  /** Size of the response to one call, and of each event of a notification stream. */
  readonly maxResponseBytes: number
}

/** The request that a response belongs to, and how its response is handled. */
export interface ResponseContext {
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** The id of the request that waits for a response; undefined for notifications and responses. */
  readonly id: RequestId | undefined
  readonly isNotificationStream: boolean
  readonly drainWhenAbandoned: boolean
  readonly filter: ResponseFilter
  isCancelled(): boolean
  encodeError(outcome: Denied | Failed): string
  resumedResponses(): ResumedResponses
  /** `begun` is the session that the response begins, if any. */
  resumptionOf(id: RequestId, begun: unknown): Resumption
}

/** Throws or rejects only for internal errors; a response that breaks the protocol is a failure of the upstream. */
export function outcomeOfResponse(
  response: McpResponse,
  context: ResponseContext,
  limits: ResponseLimits,
): MaybePromise<Outcome> {
  return attempt(
    () => read(response, context, limits),
    (error) => {
      const outcome = failureOf(error)
      return response.discard().then(() => outcome)
    },
  )
}

/** Throws `ProtocolViolation` for a redirect or a content coding. */
export function checkHead({ status, headers }: McpResponse): void {
  if (status >= 300 && status < 400)
    throw new ProtocolViolation('The upstream redirects; redirects are not followed.')
  const coding = headers['content-encoding']
  if (coding !== undefined && coding !== 'identity')
    throw new ProtocolViolation('The upstream sent a content coding that was not requested.')
}

function read(
  response: McpResponse,
  context: ResponseContext,
  limits: ResponseLimits,
): MaybePromise<Outcome> {
  checkHead(response)
  const { id, method } = context
  if (response.status >= 400 && response.form !== 'events')
    return refusedByUpstream(response, context, limits)
  if (id === undefined && method !== 'GET') {
    // The response to a notification is 202 without a body, so a client does not wait for a body.
    return response.discard().then(() => completed(response, new Uint8Array(), { digest: null }, false))
  }
  if (response.form === 'events') return streamed(response, context, limits)
  if (id === undefined)
    throw new ProtocolViolation('The upstream responded to a GET with something other than events.')
  if (response.form !== 'message')
    throw new ProtocolViolation('The upstream responded with neither JSON nor events.')
  return bufferedOutcome(response, context, id, limits)
}

function bufferedOutcome(
  response: WholeResponse,
  context: ResponseContext,
  id: RequestId,
  { maxResponseBytes }: ResponseLimits,
): MaybePromise<Outcome> {
  return after(response.message(maxResponseBytes), (received) => {
    checkResponse(received.message, id)
    return after(context.filter.response(received.message), (filtered) =>
      completed(response, showMessage(received, filtered), recordedResult(filtered)),
    )
  })
}

/** Passes 4xx and 5xx on, with lists filtered. */
async function refusedByUpstream(
  response: WholeResponse,
  { filter }: ResponseContext,
  { maxResponseBytes }: ResponseLimits,
): Promise<Outcome> {
  if (mediaType(response.headers['content-type']) === EVENT_STREAM_TYPE)
    throw new ProtocolViolation('The upstream sent an error as a stream of events.')
  const bytes = await response.bytes(maxResponseBytes)
  const received = response.form === 'message' ? await messageIfAny(response, maxResponseBytes) : undefined
  if (received === undefined) return completed(response, bytes, { digest: null, error: 'UPSTREAM' })
  const { message } = received
  const filtered = isResponse(message) ? await filter.response(message) : message
  return completed(response, showMessage(received, filtered), { digest: null, error: 'UPSTREAM' })
}

async function messageIfAny(response: WholeResponse, maxBytes: number): Promise<Received | undefined> {
  try {
    return await response.message(maxBytes)
  } catch (error) {
    if (error instanceof ProtocolViolation) return undefined
    throw error
  }
}

type Received = Awaited<ReturnType<WholeResponse['message']>>

function streamed(response: EventsResponse, context: ResponseContext, limits: ResponseLimits): Completed {
  const { id, isNotificationStream, drainWhenAbandoned, filter } = context
  const maxEventBytes = limits.maxResponseBytes
  const encodeError = (outcome: Failed): string => context.encodeError(outcome)
  const stream =
    id === undefined || isNotificationStream
      ? new NotificationStream({
          events: response.events({ maxEventBytes }),
          id,
          filter,
          resumedResponses: context.resumedResponses(),
          encodeError,
        })
      : new McpResponseStream({
          events: response.events({ maxEventBytes, maxBytes: limits.maxResponseBytes }),
          id,
          drainWhenAbandoned,
          filter,
          resumption: context.resumptionOf(id, response.headers[SESSION_ID_HEADER]),
          isCancelled: () => context.isCancelled(),
          encodeError,
        })
  return completed(response, stream, { digest: null })
}

function completed(
  { status, headers: given }: McpResponse,
  body: Completed['body'],
  result: Pick<Completed, 'error'> & { digest: string | null },
  keepType = true,
): Completed {
  const headers = headersToClient(given)
  if (!keepType) delete headers['content-type']
  return { kind: 'completed', status, headers, body, ...result }
}
