// Calls the tools of MCP servers for callers of the invoke protocol: sends a `tools/call` and returns its result.
import {
  type Abortable,
  abortable,
  type Call,
  type CallRequest,
  type Clock,
  type Completed,
  credential,
  failed,
  isDeclaredHarmless,
  type Outcome,
  sideEffects,
} from '@svc/core'
import { sha256Hex, stringifyJson } from '@svc/core/json'
import { type CallControl, countRetry } from '@svc/core/pipeline'
import { outcomeOfError } from '../upstream/invoke.js'
import { isUpstreamError, UpstreamError } from '../upstream/response.js'
import { responseTimeoutOf } from '../upstream/response-limits.js'
import { callerKey, noteHttpError, noteRpcError, sendCall, upstreamHeaders } from '../upstream/send.js'
import {
  inSession,
  isOtherEra,
  isSessionLost,
  ownRequest,
  performHandshake,
  type ServerSession,
  ServerSessions,
  sessionHeaders,
  withoutSession,
} from './handshake.js'
import {
  createRespond,
  createSend,
  createSendOwn,
  type OwnRequestOptions,
  ownClientFacts,
  type Respond,
  responseIn,
  type Send,
} from './own-requests.js'
import { checkHead } from './response-outcome.js'
import {
  changeForClients,
  type Fields,
  failureOf,
  ProtocolViolation,
  recordedResult,
} from './rpc-response.js'
import type { ServerRequests } from './server-requests.js'
import { UNVERSIONED } from './server-versions.js'
import type { McpResponse } from './servers.js'

const ID = 'svc-call'

/** Size of a response to the handshake. */
const maxHandshakeBytes = 1_048_576

/** The call that a response is for, its server, and how to respond to what the server asks. */
interface ReadContext {
  readonly call: Call
  readonly upstream: URL
  readonly respond: Respond
}

interface Sent {
  readonly response: McpResponse
  readonly status: number
  readonly isSessionLost: boolean
}

type NamedVersion = Pick<CallRequest, 'server' | 'version'>

/** Adds a finding if the caller names another version than the server's. */
export function reportVersionMismatch(call: Call, requested: NamedVersion, version: string): void {
  if (requested.version === version || requested.version === UNVERSIONED) return
  const detail = `the path asks for version ${requested.version}, and server "${requested.server}" has ${version}`
  call.addFinding({ reason: 'version_unpinned', stage: 'mcp', level: 'gateway', detail })
}

export class McpToolClient {
  #options: OwnRequestOptions
  #requests: ServerRequests
  #sessions: ServerSessions<ServerSession>

  constructor(options: OwnRequestOptions, requests: ServerRequests, clock: Clock) {
    this.#options = options
    this.#requests = requests
    this.#sessions = new ServerSessions(clock)
  }

  async dispatch(call: CallControl, upstream: URL): Promise<Outcome> {
    const request = await call.request()
    const owner = ownerOf(call, upstream)
    const opening = { failureMs: 0, open: () => this.#handshake(call, upstream) }
    try {
      const open = () => abortable(call.abortState, this.#sessions.of(owner, opening))
      await open()
      const refused = await call.commitHolds()
      if (refused !== undefined) return refused
      const drop = async (session: ServerSession, { response: ended }: Sent): Promise<void> => {
        await ended.discard()
        this.#sessions.drop(owner, session)
        call[countRetry]()
      }
      let used: ServerSession = withoutSession
      const { response } = await inSession(open, drop, (one) => {
        used = one
        return this.#send(call, upstream, request, one)
      })
      const send = this.#ownSend(call, upstream, call.abortState)
      const respond = createRespond(send, sessionHeaders(used))
      return await this.#outcomeOf({ call, upstream, respond }, response)
    } catch (error) {
      return outcomeOfError(call, error)
    }
  }

  async #send(call: CallControl, upstream: URL, request: CallRequest, session: ServerSession): Promise<Sent> {
    const params = { arguments: request.args, name: request.name }
    const own = ownRequest(session, ownClientFacts(this.#options.client), {
      id: ID,
      method: 'tools/call',
      params,
    })
    const headers = { ...upstreamHeaders(call, request), ...own.headers }
    const message = { ...own.message, jsonrpc: '2.0' }
    const sending = {
      method: 'POST',
      headers,
      message,
      signal: call.abortState,
      call,
      responseTimeoutMs: responseTimeoutOf(call),
      mayRunTwice: () => isDeclaredHarmless(request, call.get(sideEffects)),
    } as const
    const response = await sendCall(this.#options.servers, upstream, sending)
    const { status } = response
    return { response, status, isSessionLost: isSessionLost(status, await this.#errorIn(response)) }
  }

  /** The message of a response with HTTP 400, by which some servers say that they no longer have the session. */
  async #errorIn(response: McpResponse): Promise<Fields | undefined> {
    if (response.status !== 400 || response.form !== 'message') return undefined
    try {
      return (await response.message(this.#options.maxBytes)).message
    } catch (error) {
      if (error instanceof ProtocolViolation) return undefined
      throw error
    }
  }

  /** Rejects with `UpstreamError`, or as the dispatcher does. */
  async #handshake(call: Call, upstream: URL): Promise<ServerSession> {
    const send = createSendOwn(this.#handshakeSend(call, upstream), maxHandshakeBytes)
    const { reply, session } = await performHandshake(send, ownClientFacts(this.#options.client))
    const { status, error } = reply
    if (session === undefined && !isOtherEra(reply))
      throw new UpstreamError(`The MCP server refused the session (${status}).`, 'no')
    // The body of an HTTP error need not be JSON-RPC.
    if (error !== undefined && !(error instanceof ProtocolViolation && status >= 400))
      throw new UpstreamError(error.message, 'no', { cause: error })
    // The server's description is not kept. A server that accepts no handshake may still respond to the call.
    const { revision, isStateless, sessionId } = session ?? withoutSession
    return { revision, isStateless, sessionId }
  }

  /** Sends the requests of a handshake. They are not part of the call, because other calls may wait for them. */
  #handshakeSend(call: Call, upstream: URL): Send {
    return (head) => {
      const signal = AbortSignal.timeout(this.#options.timeoutMs)
      const send = this.#ownSend(call, upstream, signal)
      return send(head).catch((error: unknown) => {
        // Whatever the handshake's error, the call itself was not sent.
        if (isUpstreamError(error)) throw new UpstreamError(error.message, 'no', { cause: error.cause })
        if (signal.aborted) throw new UpstreamError('The MCP server opened no session in time.', 'no')
        throw error
      })
    }
  }

  /** Sends messages of the gateway's own with the credential of the call. */
  #ownSend(call: Call, upstream: URL, signal: Abortable): Send {
    return createSend(this.#options, upstream, call.get(credential), { signal, onBehalfOf: call })
  }

  async #outcomeOf(context: ReadContext, response: McpResponse): Promise<Outcome> {
    try {
      return await this.#read(context, response)
    } catch (error) {
      return failureOf(error)
    } finally {
      await response.discard()
    }
  }

  async #read({ call, upstream, respond }: ReadContext, response: McpResponse): Promise<Outcome> {
    const { status, headers } = response
    const { maxBytes } = this.#options
    checkHead(response, upstream)
    if (status >= 400 && response.form !== 'events') {
      noteHttpError(call, status)
      return completedWith(status, headers['content-type'], await response.bytes(maxBytes))
    }
    const received = await responseIn(response, maxBytes, respond)
    if (received === undefined) {
      return failed('UPSTREAM_UNREACHABLE', 'The upstream sent no JSON-RPC response.')
    }
    const message = changeForClients(received, ID)?.message ?? received
    noteRpcError(call, message)
    await this.#requests.judgeAsked(call, message)
    const shown = stringifyJson(message['result'] ?? message['error'])
    const { error } = await recordedResult(message, `{"result":${shown}}`)
    return completedWith(error === undefined ? 200 : 502, 'application/json', Buffer.from(shown))
  }
}

function completedWith(status: number, type: string | string[] | undefined, body: Uint8Array): Completed {
  const headers = typeof type === 'string' ? { 'content-type': type } : {}
  const error = status >= 400 ? { error: 'UPSTREAM' as const } : {}
  return { kind: 'completed', status, headers, body, ...error }
}

/** The key of a session, which one caller has with one server. */
function ownerOf(call: Call, upstream: URL): string {
  const shown = call.get(credential)
  const { nodeId, agentRef } = call.agent
  const parts = [upstream.href, callerKey(call), nodeId, agentRef, shown?.header, shown?.value]
  return sha256Hex(JSON.stringify(parts))
}
