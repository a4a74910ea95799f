// Errors that the gateway sends itself in place of a process.
import { isJsonObject } from '@svc/core/json'
import { rpcCodes } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'

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
  return rpcError(id, rpcCodes.methodNotFound, `Method not found: ${String(method)}`)
}

/** The HTTP status of a response to a request of 2026-07-28. */
export function statusOfStateless({ error }: Fields): number {
  const code = isJsonObject(error) ? error['code'] : undefined
  if (code === rpcCodes.methodNotFound) return 404
  return badRequestCodes.has(code) ? 400 : 200
}
