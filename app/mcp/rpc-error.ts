// Responses that the gateway sends itself, in place of a server or of a client.

import { isJsonObject, type JsonObject } from '@svc/core/json'
import { rpcCodes } from './protocol.js'
import type { Fields } from './rpc-response.js'

/** Codes of 2026-07-28 that are HTTP 400. */
const badRequestCodes: ReadonlySet<unknown> = new Set([
  rpcCodes.headerMismatch,
  rpcCodes.missingCapability,
  rpcCodes.unsupportedVersion,
])

export function rpcError(id: unknown, code: number, message: string, data?: Fields): Fields {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } }
}

export function methodNotFound(id: unknown, method: unknown): Fields {
  return { jsonrpc: '2.0', id, error: noSuch(method) }
}

/** The response to a server's request that no client gets: without it the server would wait, and so would the call. */
export function responseWithoutClient<Id>(
  id: Id,
  method: unknown,
): { jsonrpc: string; id: Id; result?: JsonObject; error?: JsonObject } {
  const head = { jsonrpc: '2.0', id }
  return method === 'ping' ? { ...head, result: {} } : { ...head, error: noSuch(method) }
}

function noSuch(method: unknown): JsonObject {
  return { code: rpcCodes.methodNotFound, message: `Method not found: ${String(method)}` }
}

/** The HTTP status of a response to a request of 2026-07-28. */
export function statusOfStateless({ error }: Fields): number {
  const code = isJsonObject(error) ? error['code'] : undefined
  if (code === rpcCodes.methodNotFound) return 404
  return badRequestCodes.has(code) ? 400 : 200
}
