// Ends the sessions that servers opened for a client which ends its own.
import { sessionHeaders } from '../mcp/handshake.js'
import type { ClientRequest } from './client-request.js'
import { replyTo } from './server-calls.js'
import { abortAfter } from './time-limit.js'

export async function endSession({ session, calls, ownHeaders, config }: ClientRequest): Promise<void> {
  const links = await session.links.open()
  await Promise.all(
    links
      .filter(({ sessionId }) => sessionId !== undefined)
      .map((link) => {
        const headers = { ...ownHeaders, ...sessionHeaders(link) }
        return replyTo(calls, {
          server: link.server,
          method: 'DELETE',
          headers,
          message: null,
          onCall: (call) => abortAfter(call, config.list_timeout_ms),
        })
      }),
  )
}
