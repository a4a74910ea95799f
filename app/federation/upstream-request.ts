// Translates a client's message to a request in the server's revision, and the server's response back.
import type { IncomingHttpHeaders } from 'node:http'
import { after } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import type { Translation } from '../mcp/exchange.js'
import { type ClientFacts, metaOfClient, sessionHeaders } from '../mcp/handshake.js'
import { isRequestId } from '../mcp/message.js'
import { PARAM_PREFIX } from '../mcp/param-headers.js'
import type { RequestId } from '../mcp/protocol.js'
import { isStateless } from '../mcp/protocol.js'
import { requestFor, responseFrom } from '../mcp/revision-translation.js'
import { askedIn, hasInputRounds } from './input-rounds.js'
import { withClientIds } from './server-ids.js'
import type { ServerLink } from './server-link.js'
import { listsChangedBy } from './server-lists.js'
import type { FederationSession } from './session.js'

/** Headers of the client's exchange with the gateway, which are not passed on. */
const exchangeHeaders = [
  'content-length',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  'mcp-method',
  'mcp-name',
  LAST_EVENT_ID_HEADER,
]
/** Headers that name one call. */
const callHeaders = [
  'idempotency-key',
  'x-idempotency-key',
  'x-escalation-id',
  'x-escalation-wait',
  'x-escalation-emergency',
]

/** The headers of the gateway's own requests on behalf of a client. */
export function headersOfOwnRequests(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  // The gateway itself reads the responses, whatever the client accepts.
  return withoutParamHeaders(omitFields(headers, [...exchangeHeaders, ...callHeaders, 'accept']))
}

/** The message for the server, and its headers. `message` has the server's own names. */
export function requestTo(
  link: ServerLink,
  client: ClientFacts,
  message: JsonObject,
  clientHeaders: IncomingHttpHeaders,
): { readonly headers: IncomingHttpHeaders; readonly message: JsonObject } {
  const kept = omitFields(clientHeaders, exchangeHeaders)
  // A client of older revisions has them only as leftovers.
  const hasParamHeaders = link.isStateless && isStateless(client.revision)
  const headers = { ...(hasParamHeaders ? kept : withoutParamHeaders(kept)), ...sessionHeaders(link) }
  return {
    headers,
    message: requestFor(link, isStateless(client.revision), message, () => metaOfClient(client)),
  }
}

/**
 * Translates the server's messages for the client; `method` is that of the request. `respond` responds to the server's
 * requests if the client gets none.
 */
export function translationFrom(
  link: ServerLink,
  session: FederationSession,
  method: string | undefined,
  respond: (id: RequestId, method: unknown) => Promise<void>,
): Translation {
  const { client, lists, shared } = session
  const isClientStateless = isStateless(client.revision)
  const keepsAsked = hasInputRounds(session)
  return {
    isClientStateless,
    response: (response) =>
      keepsAsked && askedIn(response) !== undefined
        ? response
        : responseFrom(link, isClientStateless, response, method),
    message(message) {
      const { method: sent, id } = message
      // A client of 2026-07-28 is sent no requests.
      if (id !== undefined && isClientStateless && !link.isStateless)
        return isRequestId(id) ? respond(id, sent).then(() => undefined) : undefined
      const kinds = id === undefined ? listsChangedBy(String(sent)) : []
      if (kinds.length > 0) lists.changed(link.server, kinds)
      // The other gateways learn of the change first, so that none serves an older list.
      const told = kinds.length > 0 ? shared?.changed(link.server) : undefined
      return after(told, () => withClientIds(link.server, message))
    },
  }
}

function withoutParamHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return omitFields(
    headers,
    Object.keys(headers).filter((name) => name.startsWith(PARAM_PREFIX)),
  )
}

function omitFields<V>(fields: Readonly<Record<string, V>>, names: readonly string[]): Record<string, V> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}
