// Writes a client's message as a request to one server: with the server's own names and ids, in the revision that the
// server speaks.
import type { IncomingHttpHeaders } from 'node:http'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import type { Translation } from '../mcp/exchange.js'
import { PARAM_PREFIX } from '../mcp/param-headers.js'
import {
  isStateless,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  STATELESS_REVISION,
} from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { headersOfRequest } from '../mcp/stateless-request.js'
import { createdTaskId } from '../mcp/tasks.js'
import { withClientIds } from './server-ids.js'
import { type ClientFacts, linkHeaders, metaOfClient, type ServerLink } from './server-link.js'
import { listsChangedBy } from './server-lists.js'
import type { FederationSession } from './session.js'

/** Headers of the client's exchange with the gateway, which a request to a server has of its own. */
const exchangeHeaders = [
  'content-length',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  'mcp-method',
  'mcp-name',
  LAST_EVENT_ID_HEADER,
]
/** Headers that name one call. */
const callHeaders = ['idempotency-key', 'x-idempotency-key', 'x-escalation-id', 'x-escalation-wait']

/** For the gateway's own requests on behalf of a client. */
export function headersOfOwnRequests(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return without(headers, [...exchangeHeaders, ...callHeaders])
}

const statelessMembers = [META_PROTOCOL_VERSION, META_CLIENT_INFO, META_CLIENT_CAPABILITIES, META_LOG_LEVEL]

/** Results that caches may keep, which from 2026-07-28 on say for how long. */
const cacheable = new Set(['resources/read'])

/** The message for the server, and the headers that go with it. `message` has the server's own names. */
export function requestTo(
  link: ServerLink,
  client: ClientFacts,
  message: JsonObject,
  clientHeaders: IncomingHttpHeaders,
): { readonly headers: IncomingHttpHeaders; readonly body: string } {
  const headers = { ...without(clientHeaders, exchangeHeaders), 'content-type': 'application/json' }
  if (!isStateless(link.revision)) {
    const written = isStateless(client.revision) ? withoutMeta(message) : message
    return {
      headers: { ...withoutParamHeaders(headers), ...linkHeaders(link) },
      body: JSON.stringify(written),
    }
  }
  const written = isStateless(client.revision) ? message : withMeta(message, metaOfClient(client))
  const { method, params } = written
  const revision = isStateless(client.revision) ? client.revision : STATELESS_REVISION
  return {
    headers: { ...headers, ...headersOfRequest(revision, String(method), params) },
    body: JSON.stringify(written),
  }
}

/** What an answer of the server becomes for the client; `method` is that of the request. */
export function translationFrom(
  link: ServerLink,
  { client, lists, tasks }: FederationSession,
  method: string | undefined,
): Translation {
  const isUpgraded = isStateless(client.revision) && !isStateless(link.revision)
  return {
    mayResume: !isStateless(client.revision),
    result(result) {
      tasks.add(link.server, createdTaskId(result))
      return isUpgraded ? completeResult(result, cacheable.has(method ?? '')) : result
    },
    message(message) {
      const { method: sent, id } = message
      if (id === undefined) lists.changed(link.server, listsChangedBy(String(sent)))
      // A client of 2026-07-28 declared no capabilities here, so that only a ping can come.
      else if (isUpgraded) return undefined
      return withClientIds(link.server, message)
    },
  }
}

/** As the revision 2026-07-28 requires results. */
export function completeResult(result: Fields, isCacheable: boolean): Fields {
  return {
    resultType: 'complete',
    ...(isCacheable ? { ttlMs: 0, cacheScope: 'private' } : {}),
    ...result,
  }
}

function withMeta(message: JsonObject, more: JsonObject): JsonObject {
  const { params } = message
  const given = isJsonObject(params) ? params : {}
  const meta = isJsonObject(given['_meta']) ? given['_meta'] : {}
  return { ...message, params: { ...given, _meta: { ...meta, ...more } } }
}

function withoutMeta(message: JsonObject): JsonObject {
  const { params } = message
  if (!isJsonObject(params) || !isJsonObject(params['_meta'])) return message
  const { _meta, ...rest } = params
  const kept = without(_meta, statelessMembers)
  return { ...message, params: Object.keys(kept).length === 0 ? rest : { ...rest, _meta: kept } }
}

function withoutParamHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return without(
    headers,
    Object.keys(headers).filter((name) => name.startsWith(PARAM_PREFIX)),
  )
}

function without<V>(fields: Readonly<Record<string, V>>, names: readonly string[]): Record<string, V> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}
