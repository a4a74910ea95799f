// Asks a server for its version: with `initialize`, and servers without sessions with `server/discover`.
import { Refusal } from '@svc/core'
import { isUpstreamError } from '../upstream/answer.js'
import { sendWith } from '../upstream/send.js'
import { HANDSHAKE_REVISION, STATELESS_REVISION } from './protocol.js'
import { askInitialize, askServer, type OwnRequestParts, type Send, uncounted } from './response.js'
import { serverVersionIn } from './server-info.js'
import { sessionHeaders } from './server-sessions.js'
import type { Probe } from './server-versions.js'
import type { McpRequest } from './servers.js'
import { clientMeta, headersOfRequest } from './stateless-request.js'

export function versionProbe({ servers, client, timeoutMs, maxBytes }: OwnRequestParts): Probe {
  return async (upstream, credential) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const send: Send = (head) => {
      const sendOnce = (one: McpRequest) => servers.send(upstream, one, uncounted)
      return sendWith(credential, { ...head, signal }, sendOnce, uncounted)
    }
    try {
      // An error, or a response outside the protocol, counts as a server without a version.
      const { result, sessionId } = await askInitialize(send, client, maxBytes)
      if (sessionId !== undefined) {
        const headers = sessionHeaders({ sessionId, revision: HANDSHAKE_REVISION })
        // A server need not allow it (405); the session then expires.
        await (await send({ method: 'DELETE', headers })).discard()
      }
      const version = serverVersionIn(result)
      if (version !== undefined) return version
      const method = 'server/discover'
      const params = { _meta: clientMeta(client) }
      const headers = headersOfRequest(STATELESS_REVISION, method, params)
      return serverVersionIn((await askServer(send, { method, params, headers }, maxBytes)).result)
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
