// Ids of requests that servers send to a client: those of several servers may be equal, so each gets its server's name.
import { type JsonValue, parseJsonObject } from '@svc/core/json'
import { isRequestId, type RequestId } from '../mcp/message.js'

/** For the client. */
export function clientRequestId(server: string, id: unknown): string {
  return JSON.stringify({ server, id })
}

/** The server and its own id, from that of the client's response; undefined for other ids. */
export function serverRequestId(
  id: RequestId,
): { readonly server: string; readonly id: RequestId } | undefined {
  const given = parseJsonObject(String(id))
  const server = given?.['server']
  const own = given?.['id'] as JsonValue | undefined
  return typeof server === 'string' && isRequestId(own) ? { server, id: own } : undefined
}
