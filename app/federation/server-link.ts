// How the requests of one client reach one server: in a session of the server's, or without sessions (2026-07-28).
import type { IncomingHttpHeaders } from 'node:http'
import { failed } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import {
  type ClientFacts,
  performHandshake,
  type SendOwn,
  type ServerDescription,
  type ServerSession,
} from '../mcp/handshake.js'
import { MAX_DESCRIPTION } from '../mcp/name-limits.js'
import { type Reply, replyTo, type ServerCalls } from './server-calls.js'

/** The session id is the one for clients. */
export interface ServerLink extends ServerSession, ServerDescription {
  readonly server: string
}

/** No request of this client reaches the server now. */
export class ServerUnavailable extends Error {
  override readonly name = 'ServerUnavailable'

  constructor(
    readonly server: string,
    readonly reply: Reply,
  ) {
    super(reasonOf(reply))
  }
}

export interface LinkParts {
  readonly calls: ServerCalls
  /** Those of the client's request, without those of MCP and of a single call. */
  readonly headers: IncomingHttpHeaders
  readonly timeoutMs: number
}

/** Rejects with `ServerUnavailable`. */
export async function openLink(server: string, client: ClientFacts, parts: LinkParts): Promise<ServerLink> {
  const send: SendOwn<Reply> = async (message, headers) => {
    const request = {
      server,
      method: 'POST',
      headers: { ...parts.headers, 'content-type': 'application/json', ...headers },
      message: { jsonrpc: '2.0', ...message },
    } as const
    const reply = await replyTo(parts.calls, request, parts.timeoutMs)
    if (message.id !== undefined && reply.outcome.kind !== 'completed')
      throw new ServerUnavailable(server, reply)
    return reply
  }
  const { reply, session } = await performHandshake(send, client)
  if (session === undefined) throw new ServerUnavailable(server, reply)
  // It is kept for as long as the session of the client.
  if (JSON.stringify(session).length > MAX_DESCRIPTION) {
    const message = `What the server says of itself is over ${MAX_DESCRIPTION} characters.`
    throw new ServerUnavailable(server, { ...reply, outcome: failed('PAYLOAD_TOO_LARGE', message) })
  }
  return { server, ...session }
}

function reasonOf({ outcome, status, response }: Reply): string {
  if (outcome.kind !== 'completed') return outcome.message
  const error = response?.['error']
  const message = isJsonObject(error) ? error['message'] : undefined
  return typeof message === 'string' ? message : `The server responded with the status ${status}.`
}
