// The response to one message, read whole, for a response that holds more than it.
import {
  type Call,
  type Completed,
  type Denied,
  type Failed,
  failed,
  isStream,
  type Outcome,
  statusOf,
} from '@svc/core'
import { isJsonObject, stringifyJson } from '@svc/core/json'
import {
  type BufferedResponse,
  type ErrorSubject,
  errorObject,
  refusalResponse,
  retryAfterOf,
} from '../http/response.js'
import { isClientStateless, isStatelessExchange, type McpExchange, mcpExchange } from './exchange.js'
import { isOtherEra } from './handshake.js'
import { META_ERROR, type ProtocolError, type RequestId, rpcCodes } from './protocol.js'
import { type Fields, isResponse } from './rpc-response.js'
import { type ReceivedMessage, shownEvent, shownMessage } from './servers.js'

/** The response to one message. */
export interface MessageOutcome {
  readonly whole: BufferedResponse
  /** The JSON-RPC response; undefined if the message needs none. */
  readonly response: ReceivedMessage | undefined
}

/** Encodes or reads the outcome of a call. */
export interface Encoding {
  encode(outcome: Denied | Failed, call: Call): BufferedResponse
  /** The whole response; events of a stream before the response are dropped. */
  response(outcome: Outcome, call: Call): Promise<MessageOutcome>
}

/** Reads the response; the other events of a stream are dropped. */
export async function readMessageOutcome(
  exchange: McpExchange,
  outcome: Outcome,
  call: ErrorSubject,
  denials: Denials,
): Promise<MessageOutcome> {
  const { id } = exchange
  if (outcome.kind !== 'completed') {
    const whole = encodeRefusal(exchange, outcome, call, denials)
    // A notification gets no response; the response to a value that is not a message has the id null.
    if (id === undefined && exchange.message !== undefined) return { whole, response: undefined }
    return { whole, response: written(refusalMessage(exchange, outcome, call, denials)) }
  }
  const { status, headers, body } = outcome
  const whole = { status, headers, body: isStream(body) ? '' : body }
  if (id === undefined) return { whole, response: undefined }
  const missing = failed('UPSTREAM_UNREACHABLE', 'The upstream sent no JSON-RPC response.')
  const response = (await responseIn(outcome, id)) ?? written(rpcErrorResponse(id, missing, call))
  return { whole, response }
}

function written(message: Fields): ReceivedMessage {
  return { message, text: stringifyJson(message) }
}

async function responseIn({ body }: Completed, id: RequestId): Promise<ReceivedMessage | undefined> {
  if (!isStream(body)) return responseTo(id, shownMessage(body))
  for await (const { bytes } of body) {
    const found = responseTo(id, shownEvent(bytes))
    if (found !== undefined) return found
  }
  return undefined
}

/** The message if it is the response to `id`. */
function responseTo(
  id: RequestId,
  { message, text }: Partial<ReceivedMessage> = {},
): ReceivedMessage | undefined {
  const isFound = message !== undefined && text !== undefined && isResponse(message) && message['id'] === id
  return isFound ? { message, text } : undefined
}

/**
 * Whether a server has refused a client's request because it may be of the other era: its `initialize`, or what a client of
 * 2026-07-28 sends to a process. A server over HTTP tells such a client which revisions to use instead.
 */
export function isEraRefused(call: Call, outcome: Outcome): boolean {
  const exchange = call.get(mcpExchange)
  if (exchange?.message?.type !== 'request') return false
  if (outcome.kind !== 'completed' || isStream(outcome.body) || !isOtherEra(outcome)) return false
  const isHandshake = exchange.message.method === 'initialize'
  if (!isHandshake && exchange.upstream().protocol !== 'stdio:') return false
  const { result, error } = shownMessage(outcome.body)?.message ?? {}
  return isHandshake
    ? result === undefined
    : isJsonObject(error) && error['code'] === rpcCodes.unsupportedVersion
}

// Encodes refusals over MCP: as HTTP errors if the client's transport must see them, as JSON-RPC messages if its caller
// waits for a response.

/** The form of a refused call of a tool: some SDKs hide errors from their model, and show it results. */
export type Denials = 'error' | 'result'

export function encodeRefusal(
  exchange: McpExchange,
  outcome: Denied | Failed,
  call: ErrorSubject,
  denials: Denials,
): BufferedResponse {
  const { id, protocolError } = exchange
  const plain = refusalResponse(outcome, call)
  const body = (): string => stringifyJson(refusalMessage(exchange, outcome, call, denials))
  if (protocolError !== undefined && outcome.code === 'BAD_REQUEST') {
    return { ...plain, status: statusOfProtocolError(protocolError, exchange), body: body() }
  }
  if (exchange.isForeignSession) return { ...plain, body: body() }
  if (id === undefined || isForTransport(outcome)) return plain
  return { ...plain, status: 200, body: body() }
}

/** The JSON-RPC response to a request that is refused or has failed. */
export function refusalMessage(
  exchange: McpExchange,
  outcome: Denied | Failed,
  call: ErrorSubject,
  denials: Denials,
): Fields {
  const { id = null, message, isForeignSession, protocolError } = exchange
  if (protocolError !== undefined && outcome.code === 'BAD_REQUEST') {
    return rpcErrorResponse(id, outcome, call, protocolError)
  }
  // The result of a call that runs as a task is the task.
  const isShownToModel =
    denials === 'result' &&
    !isForeignSession &&
    message?.type === 'request' &&
    message.method === 'tools/call' &&
    message.params['task'] === undefined
  if (!isShownToModel) return rpcErrorResponse(id, outcome, call)
  const result = {
    ...(isClientStateless(exchange) ? { resultType: 'complete' } : {}),
    content: [{ type: 'text', text: outcome.message }],
    isError: true,
    _meta: { [META_ERROR]: errorData(outcome, call) },
  }
  return { jsonrpc: '2.0', id, result }
}

export function encodeRpcError(...error: Parameters<typeof rpcErrorResponse>): string {
  return stringifyJson(rpcErrorResponse(...error))
}

/** A JSON-RPC error, whose code is the protocol's own or else the HTTP status of the refusal. */
export function rpcErrorResponse(
  id: RequestId | null,
  outcome: Denied | Failed,
  call: ErrorSubject,
  protocolError?: ProtocolError,
): Fields {
  const { code = statusOf(outcome.code), data } = protocolError ?? {}
  const error = { code, message: outcome.message, data: { ...errorData(outcome, call), ...data } }
  return { jsonrpc: '2.0', id, error }
}

/** The error object, with the header that a client over MCP does not see. */
function errorData(outcome: Denied | Failed, call: ErrorSubject): Fields {
  const seconds = Number(retryAfterOf(outcome))
  return { ...errorObject(outcome, call), ...(Number.isInteger(seconds) ? { retryAfter: seconds } : {}) }
}

/** The refusals that a client's OAuth flow needs as HTTP errors. */
function isForTransport(outcome: Denied | Failed): boolean {
  const status = statusOf(outcome.code)
  return (
    status === 401 ||
    (status === 403 && String(outcome.headers?.['www-authenticate']).includes('insufficient_scope'))
  )
}

/** Invalid params are a JSON-RPC error for the waiting call; an invalid request is an HTTP error. */
function statusOfProtocolError({ code, status }: ProtocolError, exchange: McpExchange): number {
  if (status !== undefined) return status
  if (exchange.id === undefined || code === rpcCodes.headerMismatch || code === rpcCodes.invalidRequest)
    return 400
  return code === rpcCodes.methodNotFound && isStatelessExchange(exchange) ? 404 : 200
}
