// Translates between the revisions with a handshake (up to 2025-11-25) and those without sessions (from 2026-07-28 on),
// where a client and a process speak different ones.
import { isFields, isListing } from '../mcp/listing.js'
import {
  HANDSHAKE_REVISION,
  handshakeRevisions,
  META_SERVER_INFO,
  rpcCodes,
  STATELESS_REVISION,
} from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { ServerDescription } from './handshake.js'

/** "Resource not found", up to 2025-11-25. */
const LEGACY_NOT_FOUND = -32002
/** Codes of 2026-07-28 that are HTTP 400. */
const badRequestCodes: ReadonlySet<unknown> = new Set([
  rpcCodes.headerMismatch,
  rpcCodes.missingCapability,
  rpcCodes.unsupportedVersion,
])

/** Members of `_meta` that the protocol itself defines; `progressToken` and those of others are no part of them. */
const PROTOCOL_META = 'io.modelcontextprotocol/'

/** Of a process that several clients share: whose request a log message is about is not known, so nobody gets any. */
export function sharedCapabilities({ capabilities }: ServerDescription): Fields {
  const { logging: _, ...shared } = capabilities
  return shared
}

/** The answer to a client's `initialize`. */
export function initializeResult(
  server: ServerDescription,
  requested: unknown,
  capabilities: Fields,
): Fields {
  const { serverInfo, instructions } = server
  return {
    protocolVersion: negotiated(server, requested),
    capabilities,
    serverInfo,
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** The client's revision where it is no newer than that of the process; else that of the process. */
function negotiated({ revision, isStateless }: ServerDescription, requested: unknown): string {
  const newest = isStateless ? HANDSHAKE_REVISION : revision
  return typeof requested === 'string' && handshakeRevisions.includes(requested) && requested <= newest
    ? requested
    : newest
}

/** The answer to a client's `server/discover`. */
export function discoverResult(server: ServerDescription): Fields {
  const { serverInfo, instructions } = server
  // The tasks of older revisions are others than those of 2026-07-28, which are an extension.
  const { tasks: _, ...capabilities } = sharedCapabilities(server)
  return {
    resultType: 'complete',
    supportedVersions: [...handshakeRevisions, STATELESS_REVISION],
    capabilities,
    ...(instructions === undefined ? {} : { instructions }),
    ...uncached,
    _meta: { [META_SERVER_INFO]: serverInfo },
  }
}

const uncached = { ttlMs: 0, cacheScope: 'private' } as const

/** A request of 2026-07-28 for a process of an older revision. */
export function toHandshakeRequest(request: Fields): Fields {
  const { params } = request
  if (!isFields(params) || !isFields(params['_meta'])) return request
  const meta = Object.entries(params['_meta']).filter(([name]) => !name.startsWith(PROTOCOL_META))
  const { _meta, ...rest } = params
  return { ...request, params: meta.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(meta) } }
}

/** Its response for the client. */
export function toStatelessResponse(response: Fields, method: unknown, server: ServerDescription): Fields {
  const { result, error } = response
  if (isFields(error) && error['code'] === LEGACY_NOT_FOUND) {
    return { ...response, error: { ...error, code: rpcCodes.invalidParams } }
  }
  if (!isFields(result)) return response
  const meta = isFields(result['_meta']) ? result['_meta'] : {}
  const isCacheable = isListing(result) || method === 'resources/read'
  return {
    ...response,
    result: {
      ...(isCacheable ? uncached : {}),
      ...result,
      resultType: 'complete',
      _meta: { ...meta, [META_SERVER_INFO]: server.serverInfo },
    },
  }
}

/** A request of an older revision for a process of 2026-07-28; `protocolMeta` are the members that it must have. */
export function toStatelessRequest(request: Fields, protocolMeta: Fields): Fields {
  const params = isFields(request['params']) ? request['params'] : {}
  const meta = isFields(params['_meta']) ? params['_meta'] : {}
  return { ...request, params: { ...params, _meta: { ...meta, ...protocolMeta } } }
}

/** Its response for the client: a question to the user has no form there. */
export function toHandshakeResponse(response: Fields): Fields {
  const { result } = response
  if (!isFields(result)) return response
  const { resultType, ttlMs: _ttl, cacheScope: _scope, ...rest } = result
  if (resultType === undefined || resultType === 'complete') return { ...response, result: rest }
  return rpcError(
    response['id'],
    rpcCodes.internalError,
    'The server asks for input, which only clients of 2026-07-28 can give.',
  )
}

export function rpcError(id: unknown, code: number, message: string, data?: Fields): Fields {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } }
}

export function methodNotFound(id: unknown, method: unknown): Fields {
  return rpcError(id, rpcCodes.methodNotFound, `Method not found: ${String(method)}`)
}

/** HTTP's status of a response to a request of 2026-07-28. */
export function statusOfStateless({ error }: Fields): number {
  const code = isFields(error) ? error['code'] : undefined
  if (code === rpcCodes.methodNotFound) return 404
  return badRequestCodes.has(code) ? 400 : 200
}
