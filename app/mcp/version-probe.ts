// Asks a server for its version, by the handshake.
import { Refusal } from '@svc/core'
import { isUpstreamError } from '../upstream/answer.js'
import { sendWith } from '../upstream/send.js'
import { sessionHeaders, shakeHands } from './handshake.js'
import { factsOf, type OwnRequestParts, type Send, sendingOwn, uncounted } from './response.js'
import { serverVersionIn } from './server-info.js'
import type { Probe } from './server-versions.js'
import type { McpRequest } from './servers.js'

export function versionProbe({ servers, client, timeoutMs, maxBytes }: OwnRequestParts): Probe {
  return async (upstream, credential) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const send: Send = (head) => {
      const sendOnce = (one: McpRequest) => servers.send(upstream, one, uncounted)
      return sendWith(credential, { ...head, signal }, sendOnce, uncounted)
    }
    try {
      // An error, or a response outside the protocol, counts as a server without a version.
      const { reply, session } = await shakeHands(sendingOwn(send, maxBytes), factsOf(client), false)
      if (session?.sessionId !== undefined) {
        // A server need not allow it (405); the session then expires.
        await (await send({ method: 'DELETE', headers: sessionHeaders(session) })).discard()
      }
      return serverVersionIn(reply.result)
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
