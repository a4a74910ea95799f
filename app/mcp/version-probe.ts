// Asks a server for its version: with `initialize`, and servers without sessions with `server/discover`.
import { Refusal } from '@svc/core'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { isUpstreamError, type UpstreamAnswer, type UpstreamRequest } from '../upstream/answer.js'
import { discard } from '../upstream/discard.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { sendWith } from '../upstream/send.js'
import type { Implementation } from './implementation.js'
import { HANDSHAKE_REVISION, STATELESS_REVISION } from './protocol.js'
import { isUnreadable, responseIn } from './response.js'
import { serverVersionIn } from './server-info.js'
import type { Probe } from './server-versions.js'
import { clientMeta, headersOfRequest } from './stateless-request.js'

export interface ProbeParts {
  readonly dispatcher: UpstreamDispatcher
  /** `clientInfo` of the protocol. */
  readonly client: Implementation
  /** For the whole probe, in milliseconds. */
  readonly timeoutMs: number
  readonly maxBytes: number
}

const ID = 'svc-version'
const accept = 'application/json, text/event-stream'

export function versionProbe(parts: ProbeParts): Probe {
  return async (upstream, credential) => {
    const signal = AbortSignal.timeout(parts.timeoutMs)
    const send: Send = (head) => {
      const request = { ...head, path: pathOf(upstream), signal }
      return sendWith(credential, request, (it) => parts.dispatcher.send(upstream, it, uncounted), uncounted)
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
type Send = (head: Pick<UpstreamRequest, 'method' | 'headers' | 'body'>) => Promise<UpstreamAnswer>

async function initialize(parts: ProbeParts, send: Send): Promise<string | undefined> {
  const params = { protocolVersion: HANDSHAKE_REVISION, capabilities: {}, clientInfo: parts.client }
  const answer = await post(send, 'initialize', params, {})
  const version = await versionOf(answer, parts.maxBytes)
  const session = answer.headers[SESSION_ID_HEADER]
  if (typeof session === 'string') {
    const headers = { [SESSION_ID_HEADER]: session, [PROTOCOL_VERSION_HEADER]: HANDSHAKE_REVISION }
    // A server need not allow it (405); the session then expires.
    await discard((await send({ method: 'DELETE', headers })).body)
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
  params: object,
  headers: Record<string, string>,
): Promise<UpstreamAnswer> {
  return send({
    method: 'POST',
    headers: { ...headers, accept, 'accept-encoding': 'identity', 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: ID, method, params }),
  })
}

function uncounted(): void {
  // A probe is not counted as a send.
}

async function versionOf(answer: UpstreamAnswer, maxBytes: number): Promise<string | undefined> {
  try {
    const message = await responseIn(answer, maxBytes)
    return message === undefined ? undefined : serverVersionIn(message['result'])
  } catch (fault) {
    // An answer outside the protocol counts as a server without a version.
    if (isUnreadable(fault)) return undefined
    throw fault
  } finally {
    await discard(answer.body)
  }
}

export function pathOf(upstream: URL): string {
  return `${upstream.pathname}${upstream.search}`
}
