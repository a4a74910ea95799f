// Encodes refusals over MCP: as HTTP errors if the client's transport must see them, as JSON-RPC errors if its caller
// waits for a response.
import { type Denied, type Failed, statusOf } from '@svc/core'
import { type BufferedResponse, type ErrorSubject, errorObject, refusalResponse } from '../http/response.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import type { RequestId } from './message.js'
import { type ProtocolError, rpcCodes } from './protocol.js'
import type { Fields } from './rpc-response.js'

export function encodeRefusal(
  exchange: McpExchange,
  outcome: Denied | Failed,
  call: ErrorSubject,
): BufferedResponse {
  const { protocolError, id } = exchange
  const plain = refusalResponse(outcome, call)
  if (protocolError !== undefined && outcome.code === 'BAD_REQUEST') {
    const status = statusOfProtocolError(protocolError, exchange)
    return { ...plain, status, body: encodeRpcError(id ?? null, outcome, call, protocolError) }
  }
  if (exchange.isForeignSession) return { ...plain, body: encodeRpcError(id ?? null, outcome, call) }
  if (id === undefined || isForTransport(outcome)) return plain
  return { ...plain, status: 200, body: encodeRpcError(id, outcome, call) }
}

export function encodeRpcError(...error: Parameters<typeof rpcErrorResponse>): string {
  return JSON.stringify(rpcErrorResponse(...error))
}

/** A JSON-RPC error, whose code is the protocol's own or else the HTTP status of the refusal. */
export function rpcErrorResponse(
  id: RequestId | null,
  outcome: Denied | Failed,
  call: ErrorSubject,
  protocolError?: ProtocolError,
): Fields {
  const { code = statusOf(outcome.code), data } = protocolError ?? {}
  const error = { code, message: outcome.message, data: { ...errorObject(outcome, call), ...data } }
  return { jsonrpc: '2.0', id, error }
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
