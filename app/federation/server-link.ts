// The link of one client to one server: a session with the server, or none (2026-07-28).
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
import { isStateless } from '../mcp/protocol.js'
import { type Reply, replyTo, type ServerCalls } from './server-calls.js'

/** The session id is the one that clients get. */
export interface ServerLink extends ServerSession, ServerDescription {
  readonly server: string
}

/** The server refused the client's handshake or could not be reached. */
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
  /** Headers of the client's request, without those of MCP and of a single call. */
  readonly headers: IncomingHttpHeaders
  readonly timeoutMs: number
}

/** Rejects with `ServerUnavailable`. */
export async function openLink(server: string, client: ClientFacts, parts: LinkParts): Promise<ServerLink> {
  const send: SendOwn<Reply> = async (message, headers) => {
    const request = {
      server,
      method: 'POST',
      headers: { ...parts.headers, ...headers },
      message: { jsonrpc: '2.0', ...message },
      inputFor: isStateless(client.revision) ? 'several' : 'one',
    } as const
    const reply = await replyTo(parts.calls, request, parts.timeoutMs)
    if (message.id !== undefined && reply.outcome.kind !== 'completed')
      throw new ServerUnavailable(server, reply)
    return reply
  }
  const { reply, session } = await performHandshake(send, client)
  if (session === undefined) throw new ServerUnavailable(server, reply)
  // The client's session keeps the description.
  if (JSON.stringify(session).length > MAX_DESCRIPTION) {
    const message = `The server's description of itself is over ${MAX_DESCRIPTION} characters.`
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
