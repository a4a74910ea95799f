// Translates messages if a client and a server speak revisions of different eras: with a handshake (up to 2025-11-25) or
// without sessions (from 2026-07-28 on).
import { isJsonObject, type JsonObject } from '@svc/core/json'
import type { ServerDescription, ServerSession } from './handshake.js'
import { isListing } from './lists.js'
import { metaOf, replaceMeta, withMeta } from './meta.js'
import {
  HANDSHAKE_REVISION,
  handshakeRevisions,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  META_SERVER_INFO,
  rpcCodes,
} from './protocol.js'
import type { Fields } from './rpc-response.js'

/** "Resource not found", up to 2025-11-25. */
const LEGACY_NOT_FOUND = -32002

/**
 * The members of `_meta` that 2026-07-28 defines for requests. Other names with the protocol's prefix belong to older
 * revisions, such as `related-task`, or to extensions, and stay.
 */
const statelessMembers: ReadonlySet<string> = new Set([
  META_PROTOCOL_VERSION,
  META_CLIENT_INFO,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
])

/** The caching members of 2026-07-28 for a result whose server did not allow caching. */
export const uncached = { ttlMs: 0, cacheScope: 'private' } as const

/** The client's revision if it is known and at most `newest`, else `newest` (Lifecycle, "Version Negotiation"). */
export function negotiatedRevision(requested: unknown, newest = HANDSHAKE_REVISION): string {
  return handshakeRevisions.find((revision) => revision === requested && revision <= newest) ?? newest
}

/** A client's request in the server's form; `meta` describes the client in a request without a session. */
export function requestFor(
  server: ServerSession,
  isClientStateless: boolean,
  request: JsonObject,
  meta: () => JsonObject = () => ({}),
): JsonObject {
  if (server.isStateless === isClientStateless) return request
  return server.isStateless ? withMeta(request, meta()) : toHandshakeRequest(request)
}

/** The server's response in the client's form; `method` is that of the request. */
export function responseFrom(
  server: ServerSession & ServerDescription,
  isClientStateless: boolean,
  response: Fields,
  method: unknown,
): Fields {
  if (server.isStateless === isClientStateless) return response
  return server.isStateless
    ? toHandshakeResponse(response)
    : toStatelessResponse(response, method, server.serverInfo)
}

/** Whether a result of 2026-07-28 asks for input of the client. */
export function asksForInput(result: unknown): result is Fields {
  return isJsonObject(result) && result['resultType'] === 'input_required'
}

/** A request of 2026-07-28 for a server of an older revision. */
function toHandshakeRequest(request: JsonObject): JsonObject {
  const members = Object.entries(metaOf(request['params']))
  const kept = members.filter(([name]) => !statelessMembers.has(name))
  return kept.length === members.length ? request : replaceMeta(request, Object.fromEntries(kept))
}

/** The response of a server of an older revision for a client of 2026-07-28; `method` is that of the request. */
function toStatelessResponse(response: Fields, method: unknown, serverInfo: unknown): Fields {
  const { result, error } = response
  if (isJsonObject(error) && error['code'] === LEGACY_NOT_FOUND) {
    return { ...response, error: { ...error, code: rpcCodes.invalidParams } }
  }
  return isJsonObject(result)
    ? { ...response, result: toStatelessResult(result, method, serverInfo) }
    : response
}

export function toStatelessResult(result: Fields, method: unknown, serverInfo: unknown): Fields {
  const isCacheable = isListing(result) || method === 'resources/read'
  return {
    ...(isCacheable ? uncached : {}),
    ...result,
    resultType: 'complete',
    _meta: { ...metaOf(result), ...(isJsonObject(serverInfo) ? { [META_SERVER_INFO]: serverInfo } : {}) },
  }
}

/** The response of a server of 2026-07-28 for a client of an older revision, which does not know requests for input. */
function toHandshakeResponse(response: Fields): Fields {
  const { result, ...head } = response
  if (!isJsonObject(result)) return response
  const { resultType, ttlMs: _ttl, cacheScope: _scope, ...rest } = result
  if (resultType === undefined || resultType === 'complete') return { ...head, result: rest }
  const message = 'The server asks for input, which only clients of 2026-07-28 can give.'
  return { ...head, error: { code: rpcCodes.internalError, message } }
}
