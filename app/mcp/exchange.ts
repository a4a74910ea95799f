// One HTTP exchange over MCP: what the reading of a request learns and its answering needs.
import type { IncomingHttpHeaders } from 'node:http'
import { type Credential, slot } from '@svc/core'
import type { Message, RequestId } from './message.js'
import { isStateless, type RpcCode } from './protocol.js'

export interface McpExchange {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly headers: IncomingHttpHeaders
  /** The target's name, decoded. */
  readonly server: string
  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  readonly upstream: () => URL
  /** What the gateway itself may show the upstream. Rejects with `Refusal` (`BROKER_UNAVAILABLE`). */
  readonly credential?: () => Promise<Credential | undefined>
  /** The tag that came with the id of a session; `headers` have the id as the server gave it. */
  readonly sessionTag: string | undefined
  /** Known once the body was read. */
  message: Message | undefined
  /** The id a refusal is answered under. */
  id: RequestId | undefined
  /** Set where the request broke the protocol itself. */
  protocolError: RpcCode | undefined
  /** Set where the session is not the caller's: its client begins a new one when HTTP says 404. */
  isForeignSession: boolean
}

export const mcpExchange = slot<McpExchange>('svc-sdk/mcpExchange')

/** An exchange of which nothing is known but its head. */
export function openExchange(
  head: Pick<McpExchange, 'method' | 'headers' | 'server' | 'upstream' | 'credential' | 'sessionTag'>,
): McpExchange {
  return { ...head, message: undefined, id: undefined, protocolError: undefined, isForeignSession: false }
}

/**
 * A GET has no other end than its caller's leaving. From 2026-07-28 on a client cancels a request by closing
 * its stream; before, leaving says nothing.
 */
export function disconnectCancels({ method, headers }: McpExchange): boolean {
  const version = headers['mcp-protocol-version']
  return method === 'GET' || (typeof version === 'string' && isStateless(version))
}
