// The gateway's own sessions with MCP servers, in which it calls tools for callers of the invoke protocol. A server may keep
// things in a session, so no two callers share one.
import { isJsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { UpstreamError } from '../upstream/answer.js'
import type { Implementation } from './implementation.js'
import { MAX_NAME } from './kept-names.js'
import { isStateless, STATELESS_REVISION } from './protocol.js'
import { askInitialize, type Send } from './response.js'
import { ProtocolViolation } from './rpc-response.js'

/** The one used longest ago goes first; its server ends it in its own time. */
const maxSessions = 1000
const maxBytes = 1_048_576

export interface ServerSession {
  /** Undefined where the server gave none. */
  readonly sessionId: string | undefined
  readonly revision: string
}

/**
 * Runs `use` in a session, and once more in another one where the server says with 404 that it no longer has the first: it
 * has not acted on the request. `drop` gets the session, and what the server says.
 */
export async function inSession<
  Session extends Pick<ServerSession, 'sessionId'>,
  Reply extends { readonly status: number },
>(
  open: () => Promise<Session>,
  drop: (session: Session, reply: Reply) => Promise<void>,
  use: (session: Session) => Promise<Reply>,
): Promise<Reply> {
  const session = await open()
  const reply = await use(session)
  if (reply.status !== 404 || session.sessionId === undefined) return reply
  await drop(session, reply)
  return use(await open())
}

export class ServerSessions {
  #client: Implementation
  #open = new BoundedMap<string, Promise<ServerSession>>(maxSessions)

  constructor(client: Implementation) {
    this.#client = client
  }

  /** The session of `owner`, opened where there is none. Rejects with `UpstreamError`, or as `send` does. */
  async of(owner: string, send: Send): Promise<ServerSession> {
    const known = this.#open.get(owner)
    if (known !== undefined) {
      // The one used last.
      this.#open.set(owner, known)
      return known
    }
    const opening = this.#handshake(send)
    this.#open.set(owner, opening)
    try {
      return await opening
    } catch (fault) {
      if (this.#open.get(owner) === opening) this.#open.delete(owner)
      throw fault
    }
  }

  /** The server has ended it. */
  async drop(owner: string, session: ServerSession): Promise<void> {
    const known = this.#open.get(owner)
    if (known !== undefined && (await known) === session && this.#open.get(owner) === known) {
      this.#open.delete(owner)
    }
  }

  async #handshake(send: Send): Promise<ServerSession> {
    const { status, sessionId, result, error } = await askInitialize(send, this.#client, maxBytes)
    if (status === 401 || status === 403 || status >= 500) {
      throw new UpstreamError(`The MCP server refused the session (${status}).`, 'no')
    }
    // A refusal need not be JSON-RPC.
    if (error !== undefined && !(error instanceof ProtocolViolation && status >= 400)) {
      throw new UpstreamError(error.message, 'no', { cause: error })
    }
    const revision = isJsonObject(result) ? result['protocolVersion'] : undefined
    // A server without sessions does not know `initialize`; its answer to the call then counts.
    if (status >= 400 || typeof revision !== 'string' || isStateless(revision)) {
      return { sessionId: undefined, revision: STATELESS_REVISION }
    }
    if (revision.length > MAX_NAME) throw new UpstreamError('The MCP server named no revision.', 'no')
    const session = { sessionId, revision }
    const message = { jsonrpc: '2.0', method: 'notifications/initialized' }
    const accepted = await send({ method: 'POST', headers: sessionHeaders(session), message })
    await accepted.discard()
    return session
  }
}

export function sessionHeaders({ sessionId, revision }: ServerSession): Record<string, string> {
  const session = sessionId === undefined ? {} : { [SESSION_ID_HEADER]: sessionId }
  return { [PROTOCOL_VERSION_HEADER]: revision, ...session }
}
