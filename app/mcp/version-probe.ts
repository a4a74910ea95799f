// Asks a server for its version: with `initialize`, and servers without sessions with `server/discover`.
import { Refusal } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { isUpstreamError } from '../upstream/answer.js'
import { sendWith } from '../upstream/send.js'
import type { Implementation } from './implementation.js'
import { HANDSHAKE_REVISION, STATELESS_REVISION } from './protocol.js'
import { isUnreadable, responseIn } from './response.js'
import { serverVersionIn } from './server-info.js'
import type { Probe } from './server-versions.js'
import type { McpRequest, McpResponse, McpServers } from './servers.js'
import { clientMeta, headersOfRequest } from './stateless-request.js'

export interface ProbeParts {
  readonly servers: McpServers
  /** `clientInfo` of the protocol. */
  readonly client: Implementation
  /** For the whole probe, in milliseconds. */
  readonly timeoutMs: number
  readonly maxBytes: number
}

const ID = 'svc-version'

export function versionProbe(parts: ProbeParts): Probe {
  return async (upstream, credential) => {
    const signal = AbortSignal.timeout(parts.timeoutMs)
    const send: Send = (head) => {
      const send = (one: McpRequest) => parts.servers.send(upstream, one, uncounted)
      return sendWith(credential, { ...head, signal }, send, uncounted)
    }
    try {
      return (await initialize(parts, send)) ?? (await discover(parts, send))
    } catch (cause) {
      if (isUpstreamError(cause) || signal.aborted) {
        const reason = isUpstreamError(cause) ? ` ${cause.message}` : ''
        const message = `The server could not be asked for its version.${reason}`
        throw new Refusal('UPSTREAM_UNREACHABLE', message, { cause })
      }
      throw cause
    }
  }
}

/** Sends to the server with the credential, within the time limit. */
type Send = (head: Pick<McpRequest, 'method' | 'headers' | 'message'>) => Promise<McpResponse>

async function initialize(parts: ProbeParts, send: Send): Promise<string | undefined> {
  const params = { protocolVersion: HANDSHAKE_REVISION, capabilities: {}, clientInfo: parts.client }
  const answer = await post(send, 'initialize', params, {})
  const version = await versionOf(answer, parts.maxBytes)
  const session = answer.headers[SESSION_ID_HEADER]
  if (typeof session === 'string') {
    const headers = { [SESSION_ID_HEADER]: session, [PROTOCOL_VERSION_HEADER]: HANDSHAKE_REVISION }
    // A server need not allow it (405); the session then expires.
    await (await send({ method: 'DELETE', headers })).discard()
  }
  return version
}

async function discover(parts: ProbeParts, send: Send): Promise<string | undefined> {
  const params = { _meta: clientMeta(parts.client) }
  const headers = headersOfRequest(STATELESS_REVISION, 'server/discover', params)
  return versionOf(await post(send, 'server/discover', params, headers), parts.maxBytes)
}

function post(
  send: Send,
  method: string,
  params: JsonObject,
  headers: Record<string, string>,
): Promise<McpResponse> {
  return send({ method: 'POST', headers, message: { jsonrpc: '2.0', id: ID, method, params } })
}

function uncounted(): void {
  // A probe is not counted as a send.
}

async function versionOf(answer: McpResponse, maxBytes: number): Promise<string | undefined> {
  try {
    const message = await responseIn(answer, maxBytes)
    return message === undefined ? undefined : serverVersionIn(message['result'])
  } catch (fault) {
    // An answer outside the protocol counts as a server without a version.
    if (isUnreadable(fault)) return undefined
    throw fault
  } finally {
    await answer.discard()
  }
}
