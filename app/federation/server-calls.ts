// Requests to single servers on behalf of a request to several: each is a call, as a request to /mcp/<server> is.
import type { IncomingHttpHeaders } from 'node:http'
import type { Call, Denied, Failed, MaybePromise, Outcome, Refusal, RequestedResource } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import type { HeldCalls } from '../escalations/elicitation/held-calls.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import type { BufferedResponse } from '../http/response.js'
import type { ClientRequests } from '../mcp/client-requests.js'
import type { ElicitationModes, ElicitationResponse } from '../mcp/elicitation-modes.js'
import type { McpExchange, Translation } from '../mcp/exchange.js'
import type { ServerReply } from '../mcp/handshake.js'
import type { MessageOutcome } from '../mcp/message-outcome.js'
import type { Fields } from '../mcp/rpc-response.js'
import { isSessionLost } from '../mcp/server-sessions.js'
import type { InputReceivers } from '../mcp/servers.js'

export interface ServerRequest {
  readonly server: string
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** The session id in them is the one that clients get for the server. */
  readonly headers: IncomingHttpHeaders
  /** Null for a GET or a DELETE. */
  readonly message: JsonObject | null
  readonly translation?: Translation
  readonly inputFor?: InputReceivers
  /** How the person at the client can be asked about the call; if not given, nobody can. */
  readonly modes?: ElicitationModes
  /** The person's response; set if the call is repeated. */
  readonly elicited?: ElicitationResponse | undefined
  /** Runs when the call exists, before the stages. */
  onCall?(call: Call): void
  /** Runs when the stages have allowed the call, before it is sent. */
  onJudged?(call: Call): void
}

/** Encodes or reads the outcome of a call. */
export interface Encoding {
  encode(outcome: Denied | Failed, call: Call): BufferedResponse
  /** The whole response; events of a stream before the response are dropped. */
  response(outcome: Outcome, call: Call): Promise<MessageOutcome>
}

export interface ServerCalls {
  /** Runs one call; the stages do not end before `respond` has resolved. */
  run(
    request: ServerRequest,
    respond: (call: CallControl, outcome: Outcome, encoding: Encoding) => MaybePromise<void>,
  ): Promise<void>
  /** Asks people about calls that were not sent. */
  readonly heldCalls: HeldCalls
  /** The gateway's own requests to clients. */
  readonly clientRequests: ClientRequests
  /** Records the refusal of a request that reaches no server, and responds with it. */
  refuse(refusal: Refusal, exchange: McpExchange, used: RequestedResource): Promise<void>
}

/** The response of one server, read whole. */
export interface Reply extends ServerReply {
  readonly outcome: Outcome
  /** The JSON-RPC response; undefined if there is none. */
  readonly response: Fields | undefined
  readonly isSessionLost: boolean
}

/** The call ends after `timeoutMs`, if given: a server that hangs must not delay the others. */
export async function replyTo(
  calls: ServerCalls,
  request: ServerRequest,
  timeoutMs?: number,
): Promise<Reply> {
  let reply: Reply | undefined
  const onCall = (call: Call): void => {
    if (timeoutMs !== undefined) abortAfter(call, timeoutMs)
    request.onCall?.(call)
  }
  await calls.run({ ...request, onCall }, async (call, outcome, encoding) => {
    const { whole, response } = await encoding.response(outcome, call)
    const { [SESSION_ID_HEADER]: sessionId } = whole.headers
    reply = {
      outcome,
      status: whole.status,
      sessionId: typeof sessionId === 'string' ? sessionId : undefined,
      response: response?.message,
      isSessionLost: isSessionLost(whole.status, response?.message),
      result: response?.message['result'],
    }
  })
  if (reply === undefined) throw new Error('a call has no outcome')
  return reply
}

function abortAfter(call: Call, ms: number): void {
  const timer = setTimeout(
    () => call.abort('UPSTREAM_UNREACHABLE', 'The server did not respond in time.'),
    ms,
  ).unref()
  call.afterSettle(() => clearTimeout(timer))
}
