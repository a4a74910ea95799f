// The gateway's own sessions with MCP servers, in which it calls tools for callers of the invoke protocol. A server may keep
// things in a session, so no two callers share one.
import { isJsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { UpstreamError } from '../upstream/answer.js'
import type { Implementation } from './implementation.js'
import { MAX_NAME } from './kept-names.js'
import { HANDSHAKE_REVISION, isStateless, STATELESS_REVISION } from './protocol.js'
import { isUnreadable, responseIn } from './response.js'
import { ProtocolViolation } from './rpc-response.js'
import type { McpRequest, McpResponse } from './servers.js'

/** The one used longest ago goes first; its server ends it in its own time. */
const maxSessions = 1000
const maxBytes = 1_048_576
const ID = 'svc-session'

export interface ServerSession {
  /** Undefined where the server gave none. */
  readonly id: string | undefined
  readonly revision: string
}

/** Sends to the server with the caller's credential. Rejects like the dispatcher. */
export type Send = (head: Pick<McpRequest, 'method' | 'headers' | 'message'>) => Promise<McpResponse>

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
    const params = { protocolVersion: HANDSHAKE_REVISION, capabilities: {}, clientInfo: this.#client }
    const message = { jsonrpc: '2.0', id: ID, method: 'initialize', params }
    const answer = await send({ method: 'POST', headers: {}, message })
    const revision = await chosenRevision(answer)
    // A server without sessions does not know `initialize`; its answer to the call then counts.
    if (revision === undefined) return { id: undefined, revision: STATELESS_REVISION }
    const { [SESSION_ID_HEADER]: given } = answer.headers
    const session: ServerSession = { id: typeof given === 'string' ? given : undefined, revision }
    const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
    const handed = await send({ method: 'POST', headers: sessionHeaders(session), message: initialized })
    await handed.discard()
    return session
  }
}

export function sessionHeaders({ id, revision }: ServerSession): Record<string, string> {
  return { [PROTOCOL_VERSION_HEADER]: revision, ...(id === undefined ? {} : { [SESSION_ID_HEADER]: id }) }
}

/** The revision that the server chose; undefined where it refuses the handshake. */
async function chosenRevision(answer: McpResponse): Promise<string | undefined> {
  try {
    if (answer.status === 401 || answer.status === 403 || answer.status >= 500) {
      throw new UpstreamError(`The MCP server refused the session (${answer.status}).`, 'no')
    }
    const message = await responseIn(answer, maxBytes)
    const result = message?.['result']
    const revision = isJsonObject(result) ? result['protocolVersion'] : undefined
    if (answer.status >= 400 || typeof revision !== 'string' || isStateless(revision)) return undefined
    if (revision.length > MAX_NAME) throw new UpstreamError('The MCP server named no revision.', 'no')
    return revision
  } catch (fault) {
    if (fault instanceof ProtocolViolation && answer.status >= 400) return undefined
    if (isUnreadable(fault)) {
      throw new UpstreamError(fault.message, 'no', { cause: fault })
    }
    throw fault
  } finally {
    await answer.discard()
  }
}
