// Reads the one response in an MCP server's answer, for requests of the gateway itself.
import { isRefusal } from '@svc/core'
import { SseOverflow } from '@svc/core/http'
import { type Fields, isResponse, ProtocolViolation } from './rpc-response.js'
import type { McpResponse } from './servers.js'

/** Whether a fault of `responseIn` says that the server's answer is outside the protocol, or too large. */
export function isUnreadable(fault: unknown): fault is Error {
  if (fault instanceof ProtocolViolation || fault instanceof SseOverflow) return true
  return isRefusal(fault) && fault.code === 'PAYLOAD_TOO_LARGE'
}

/** Undefined where there is none. Rejects with what `isUnreadable` says, or with `UpstreamError`. */
export async function responseIn(response: McpResponse, maxBytes: number): Promise<Fields | undefined> {
  if (response.form === 'other') return undefined
  if (response.form !== 'events') return (await response.message(maxBytes)).message
  for await (const { message } of response.events({ maxBytes })) {
    if (message !== undefined && isResponse(message)) return message
  }
  return undefined
}
